"""A sensitivity ranking, or a frontier, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from ptq.core.wording import format_decibels, plural
from ptq.evaluation.drop import describe_drop
from ptq.evaluation.frontier import FrontierReport
from ptq.evaluation.presentation.frontier import build_frontier
from ptq.evaluation.presentation.making import build_run
from ptq.evaluation.presentation.ranking import build_ranking
from ptq.evaluation.presentation.result_page import render_result
from ptq.evaluation.presentation.verdict import VerdictFigure
from ptq.evaluation.ranking import Ranking
from ptq.page.page import RunFact


def render_ranking_page(ranking: Ranking, made: Sequence[RunFact] = ()) -> str:
    """The ranking as an HTML document: every node with quantizers, largest gain first."""
    figures = [
        VerdictFigure("SQNR of int8", f"{format_decibels(ranking.sqnr_db)} dB", (describe_drop(ranking.drop),)),
        VerdictFigure("nodes", str(len(ranking.nodes)), (f"{plural(ranking.sources, 'quantizer')}",)),
    ]  # fmt: skip
    return render_result(
        f"{PurePath(ranking.model).name}: sensitivity",
        f"{ranking.model}, target {ranking.target}, on {plural(ranking.samples, 'sample')}",
        ranking,
        figures,
        (*build_ranking(ranking), build_run(made)),
    )


def render_frontier_page(report: FrontierReport, made: Sequence[RunFact] = ()) -> str:
    """The frontier as an HTML document."""
    chosen = next(point for point in report.points if point.chosen)
    figures = [
        VerdictFigure("speed of the chosen point", f"{chosen.speed:.2f}× float", ("estimated",)),
        VerdictFigure("its SQNR", f"{format_decibels(chosen.sqnr_db)} dB", ("estimated",)),
        VerdictFigure("its float nodes", str(len(chosen.floats)), (f"prefer {report.prefer}",)),
    ]
    return render_result(
        f"{PurePath(report.model).name}: speed against error",
        f"{report.model}, target {report.target}",
        report,
        figures,
        (*build_frontier(report), build_run(made)),
    )
