"""What a frontier and a ranking of nodes say below their tables, on the terminal and on the page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ptq.core.wording import plural
from ptq.evaluation.frontier import FrontierReport
from ptq.evaluation.ranking import Ranking


def describe_frontier(report: FrontierReport) -> Iterator[str]:
    """Which point the rule chooses, what a point is, and how the points were found."""
    chosen = next(point for point in report.points if point.chosen)
    yield (
        f"→ point {chosen.number}: the rule chooses it on these samples (prefer {report.prefer}; "
        f"{plural(len(chosen.floats), 'node')} float); ptq quantize applies the rule to calibration samples"
    )
    yield (
        "point 0 keeps no node in float for its error; the others stand in the order of their time in the table, "
        "each with less injected error; measured, two may change places; --point N writes its model"
    )
    yield (
        f"estimated from {plural(report.runs, 'run')} on {plural(report.estimated_on, 'sample')} for "
        f"{plural(report.sources, 'error source')}, measured on {plural(report.samples, 'sample')}; "
        f"times: {report.cost_table}"
    )


def describe_ranking(ranking: Ranking) -> Iterator[str]:
    """What a row is, and how the gains were found."""
    if ranking.nodes:
        first = ranking.nodes[0]
        skipped = " ".join(f"--skip {shlex.quote(name)}" for name in (first.node, *first.along))
        yield (
            "a row is one node kept in float, with the nodes that go with it; the gain is that of all together; "
            f"for the first row: ptq quantize {skipped}"
        )
    yield (
        f"estimated from {plural(ranking.runs, 'run')} of the float model on "
        f"{plural(ranking.estimated_on, 'sample')} for {plural(ranking.sources, 'quantizer')}; "
        f"measured: {plural(ranking.measurements, 'quantized model')}"
    )
