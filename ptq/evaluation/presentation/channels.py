"""Section: the weights of each output channel before and after equalization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ptq.core.plan import Plan
from ptq.evaluation.report.report_data import ReportData
from ptq.page.anchors import link_to
from ptq.page.blocks import Figure, Figures, Legend
from ptq.page.channels import build_channels
from ptq.page.page import Section

_MAX = 9
_LEGEND = (("before", "before equalization"), ("after", "after"))


def build_weights(report: ReportData, plan: Plan, anchors: Mapping[str, str]) -> Section:
    """The layers whose channels were scaled by the most different factors.

    Args:
        report: The report.
        plan: The plan, which has the factors and the scale of each weight's channel.
        anchors: Identifiers of the nodes in the section of the graph.
    """
    figures = [figure for _, figure in sorted(_draw(report, plan, anchors), key=lambda f: -f[0])]
    note = (
        "Largest weight of each output channel. Channels of similar size share one scale of the "
        "activation with less error; the layers after take the factors back."
    )
    blocks: list[object] = [Legend(_LEGEND), Figures(tuple(figures[:_MAX]))] if figures else []
    return Section(
        "weights", "Weights by channel, before and after equalization", blocks, note, "Weights"
    )


def _draw(
    report: ReportData, plan: Plan, anchors: Mapping[str, str]
) -> Iterator[tuple[float, Figure]]:
    writers = {name: row.name for row in report.nodes for name in row.outputs}
    for tensor, listed in (plan.channel_factors or {}).items():
        node = writers.get(tensor, "")
        params = plan.find_weight_qparams(node)
        factors = np.asarray(listed, np.float64)
        if params is None or params.scale.size != factors.size or not (factors > 0).all():
            continue  # one scale for the whole weight says nothing of its channels
        after = params.scale.astype(np.float64).reshape(-1) * params.qtype.hi
        before = after / factors
        ratio = float(factors.max() / factors.min())
        spread = [float(values.max() / values.min()) for values in (before, after)]
        fact = f"factors differ by {ratio:.3g}×; largest over smallest channel {spread[0]:.3g} → {spread[1]:.3g}"
        picture = build_channels(
            f"Weights of {node} by channel; {fact}", before.tolist(), after.tolist()
        )
        yield ratio, Figure(node, picture, (fact,), link_to(anchors, node))
