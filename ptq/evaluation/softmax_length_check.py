"""Attention weights whose range holds for one length only.

The n results of a Softmax have the sum 1, so the greatest of them is 1/n or more. A range that ends below 1/n thus
cuts every Softmax over n positions, whatever the values are. If all samples have one length, and their weights are
nearly equal, the range ends near 1/length: at half the length the error is as large as the weights. Attention that
concentrates on few positions, as in most trained models, has weights near 1 at any length, and nothing is found.
"""

from __future__ import annotations

import math

from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.wording import plural
from ptq.data import Preprocess, Samples
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.axes import softmax_axes
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import Node, name_of, operator_of, shape_of

MAX_SAMPLES = 16
MIN_SHARE = 0.5
"""Share of the length of the samples below which cut weights are tolerated: inputs so much shorter may not occur."""
_MAX_END = 0.5
"""A range that ends here or above holds for 2 positions or more. One position alone is not diagnosed."""


def check_softmax_lengths(
    graph: Graph, plan: Plan, samples: Samples | None, *, run: RunOptions
) -> Diagnosis | None:
    """Diagnose ranges of Softmaxes that inputs of another length certainly exceed; None if there are none.

    Args:
        graph: The prepared graph.
        plan: The plan.
        samples: The calibration samples; None if only their statistics are given.
        run: How the job runs.

    Raises:
        DataError: A sample is bad, or the model fails on it.
    """
    ends = _range_ends(graph, plan)
    if samples is None or not ends or isinstance(samples.preprocess, Preprocess):
        return None  # options for images fix their size
    names = list(ends)
    axes = {name_of(n.outputs[0]): softmax_axes(n)[0] for n in graph.nodes if _is_softmax(n)}
    session = session_with_outputs(graph, CollectedTensors(names), threads=run.threads)
    lengths: dict[str, int] = {}
    for sample in samples.spread(MAX_SAMPLES):
        for name, array in zip(names, session.run(sample.feed, names), strict=True):
            length = array.shape[axes[name]]
            if lengths.setdefault(name, length) != length:
                del ends[name]
        names = list(ends)
        if not names:
            return None
    found = [name for name in names if ends[name] * MIN_SHARE * lengths[name] < 1]
    if not found:
        return None
    worst = min(found, key=ends.__getitem__)
    others = f" (so is that of {plural(len(found) - 1, 'other tensor')})" if found[1:] else ""
    return Diagnosis(
        f"all samples have {lengths[worst]} positions, and its range ends at {ends[worst]:.3g}: too low for fewer "
        f"than {math.ceil(1 / ends[worst])} positions{others}",
        f"{worst} (output of a Softmax)",
        "calibrate with samples of several lengths, the shortest too, or use the model at this length only",
    )


def _range_ends(graph: Graph, plan: Plan) -> dict[str, float]:
    """Where the range of each Softmax over an open axis ends, if shorter inputs may exceed it."""
    if not any(None in (shape_of(value) or ())[1:] for value in graph.inputs):
        return {}
    ends = {}
    for node in filter(_is_softmax, graph.nodes):
        name, shape, (axis, _) = (
            name_of(node.outputs[0]),
            shape_of(node.outputs[0]),
            softmax_axes(node),
        )
        params = plan.tensors.get(name)
        if params is None or params.axis is not None or (shape is not None and shape[axis]):
            continue
        end = float(params.scale) * (params.qtype.hi - int(params.zero_point))
        if end < _MAX_END:
            ends[name] = end
    return ends


def _is_softmax(node: Node) -> bool:
    return operator_of(node) == "Softmax" and not softmax_axes(node)[1]
