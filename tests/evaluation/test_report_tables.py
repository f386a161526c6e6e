"""Tables of a report that stay readable: no row without figures, no cell of dozens of node names."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network
from ptq_cli.render.screen import show
from ptq_cli.render.tables import render_forms

import ptq
from ptq.evaluation.frontier import FrontierPoint
from ptq.evaluation.presentation.accuracy import build_forms
from ptq.evaluation.presentation.frontier import MAX_NAMES, _tabulate


def make_point(number: int, floats: int) -> FrontierPoint:
    names = {f"node {k}": "error" for k in range(floats)}
    return FrontierPoint(number, names, 1.5, 30.0)


def test_a_step_of_many_nodes_names_the_first_and_counts_the_others():
    columns, rows = _tabulate([make_point(0, 0), make_point(1, 2), make_point(2, 42)])
    assert columns[-1].title == "float for error, more than the point before"
    assert [row[-1].text for row in rows] == [
        "",
        "node 0, node 1",
        "node 2, node 3, node 4 and 37 more",
    ]
    assert MAX_NAMES == 3
    assert _tabulate([make_point(1, 42), make_point(2, 2)])[1][1][-1].text == (
        "without node 10, node 11, node 12 and 37 more"
    )


def test_the_float_model_has_no_row_where_it_has_no_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    w = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    model = build_network("y = MatMul(x, w)", {"x": ("N", 4)}, ["y"], w=w)
    x = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
    result = ptq.quantize(model, {"x": x}, effort="fast", threads=1, force=True)
    evaluation = result.report.evaluation
    assert evaluation is not None
    titles = {"float": "the float model", "int8": "int8", "integers": "integers"}
    show(*render_forms(evaluation, titles))
    printed = capsys.readouterr().out
    assert "int8" in printed
    assert "the float model" not in printed
    [table, *_] = build_forms(evaluation, titles)
    assert [row[0].text for row in table.rows] == ["int8", "integers"]
