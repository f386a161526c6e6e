"""The frontier: a Pareto curve from all int8 on, whose models are written without calibrating again."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.targets import get_target
from ptq.evaluation.exports.frontier_svg import render_svg
from ptq.optimization.mixed_precision.frontier.frontier_points import CurvePoint, keep_pareto
from ptq.optimization.mixed_precision.knee.decisions import CountedDecisions
from ptq.optimization.mixed_precision.knee.saved_decisions import SavedDecisions
from ptq.solver.partition.shipped_tables import get_cost_table

BLOCK = "c{n} = Conv<pads = [1, 1, 1, 1]>({x}, w{n})\nr{n} = Relu(c{n})\n"


def _network() -> object:
    text, names = "", ["x", *(f"r{n}" for n in range(6))]
    for n in range(6):
        text += BLOCK.format(n=n, x=names[n])
    weights = {
        f"w{n}": (gaussian_array(24, 24, 3, 3) / (9 + n)).astype(np.float32) for n in range(6)
    }
    return build_network(
        text + "p = GlobalAveragePool(r5)\ny = Flatten(p)", {"x": (1, 24, 20, 20)}, **weights
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "samples.npz"
    np.savez(path, x=gaussian_array(30, 24, 20, 20).astype(np.float32))
    return path


@pytest.fixture(scope="module")
def curve(data: Path) -> ptq.Frontier:
    return ptq.frontier(_network(), data, equalize=False, effort="fast", threads=1)  # type: ignore[arg-type]


def test_each_further_point_is_slower_and_has_less_error(curve: ptq.Frontier) -> None:
    points = curve.report.points
    assert not points[0].floats
    assert [p.number for p in points] == list(range(len(points)))
    assert all(after.sqnr_db > before.sqnr_db for before, after in pairwise(points[1:]))
    speeds = [point.speed for point in points[1:] if point.measured_speed is None]
    assert speeds == sorted(speeds, reverse=True), (
        "estimates; those measured are as noisy as the machine"
    )


def test_the_ends_and_the_chosen_point_are_measured(curve: ptq.Frontier) -> None:
    points = curve.report.points
    (chosen,) = [point for point in points if point.chosen]
    for point in (points[0], points[-1], chosen):
        assert point.measured_speed is not None
        assert point.measured_sqnr_db is not None
    assert points[0].sqnr_db == points[0].measured_sqnr_db


def test_the_plan_of_a_point_leaves_its_nodes_float(curve: ptq.Frontier) -> None:
    for point, plan in zip(curve.report.points, curve.plans, strict=True):
        assert point.floats.keys() <= plan.floats.keys()


def test_a_point_is_written_from_the_saved_plan_and_statistics_without_calibrating(
    curve: ptq.Frontier, data: Path, tmp_path: Path
) -> None:
    curve.save(tmp_path / "f")
    stages: list[str] = []

    def watch(stage: str, steps: int | None) -> object:
        stages.append(stage)
        return lambda *_: True

    result = ptq.quantize(
        _network(),  # type: ignore[arg-type]
        data,
        plan=tmp_path / "f" / "point-1.json",
        stats=tmp_path / "f" / "statistics.npz",
        threads=1,
        progress=watch,  # type: ignore[arg-type]
    )
    assert "calibrating" not in stages
    assert curve.report.points[1].floats.keys() <= result.plan.floats.keys()
    document = json.loads((tmp_path / "f" / "frontier.json").read_text())
    assert len(document["points"]) == len(curve.plans)


def test_plans_of_an_earlier_frontier_in_the_folder_are_removed(
    curve: ptq.Frontier, tmp_path: Path
) -> None:
    curve.save(tmp_path)
    (tmp_path / "point-a.json").write_text("{}")
    replace(curve, plans=curve.plans[:2]).save(tmp_path)
    plans = {path.name for path in tmp_path.glob("point-*.json")}
    assert plans == {"point-0.json", "point-1.json", "point-a.json"}


def test_plans_that_no_frontier_left_stay(curve: ptq.Frontier, tmp_path: Path) -> None:
    (tmp_path / "point-99.json").write_text("{}")
    curve.save(tmp_path)
    assert (tmp_path / "point-99.json").read_text() == "{}"


def test_the_plans_say_how_samples_become_arrays(curve: ptq.Frontier) -> None:
    assert all(plan.preprocess == curve.calibration.preprocess for plan in curve.plans)
    assert curve.plans[0].preprocess is not None


def test_the_same_samples_give_the_same_plans(curve: ptq.Frontier, data: Path) -> None:
    again = ptq.frontier(_network(), data, equalize=False, effort="fast", threads=1)  # type: ignore[arg-type]
    assert [p.to_json() for p in again.plans] == [p.to_json() for p in curve.plans]


def test_the_table_of_times_is_named_with_its_digest(curve: ptq.Frontier) -> None:
    table = get_cost_table(get_target("ort"))
    assert table is not None
    assert (curve.report.cost_table, curve.report.cost_table_digest) == (table.name, table.digest)
    assert len(table.digest) == 64


def test_a_point_without_error_is_at_the_top_of_the_picture(curve: ptq.Frontier) -> None:
    *points, last = curve.report.points
    exact = replace(last, sqnr_db=float("inf"), measured_sqnr_db=float("inf"))
    text = render_svg(replace(curve.report, points=(*points, exact)))
    assert "nan" not in text
    assert "inf" not in text
    circles = [node for node in ElementTree.fromstring(text).iter() if node.tag.endswith("circle")]
    heights = [float(node.attrib["cy"]) for node in circles if node.attrib["fill"] != "none"]
    assert heights[-1] == min(heights) == 40  # of 400, below the title


def test_the_picture_is_an_svg_with_a_circle_for_each_point(curve: ptq.Frontier) -> None:
    tree = ElementTree.fromstring(render_svg(curve.report))  # our own text
    circles = [e for e in tree.iter() if e.tag.endswith("circle")]
    assert len(circles) == len(curve.report.points) + 1


def test_a_target_without_measured_times_is_refused(data: Path) -> None:
    with pytest.raises(ptq.UsageError, match="no times are measured for target litert"):
        ptq.frontier(_network(), data, target="litert")  # type: ignore[arg-type]


def test_a_point_that_another_one_excels_in_both_is_no_point_of_the_curve() -> None:
    def point(nodes: str, time: float, error: float) -> CurvePoint:
        return CurvePoint(frozenset(nodes), time, error)

    first, worse, better = point("", 10, 1.0), point("a", 12, 0.5), point("ab", 11, 0.4)
    last = point("abc", 13, 0.1)
    assert keep_pareto([first, worse, better, last]) == [first, better, last]


@pytest.mark.parametrize(("left", "chosen"), [(2.0, True), (5.0, False)])
def test_the_chosen_point_has_float_nodes_only_if_they_save_boxes(
    left: float, chosen: bool, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts are given: all in integers changes 5 of 50 boxes."""
    place, task = "ptq.api.frontier", None
    counted = CountedDecisions(task, [], [1, 49], 0.1)  # type: ignore[arg-type]
    saved = SavedDecisions(2, 50.0, 5.0, left, (0.0, 0.0))
    monkeypatch.setattr(f"{place}.count_decisions", lambda *_: counted)
    counts = "ptq.optimization.mixed_precision.knee.saved_decisions.count_saved_decisions"
    monkeypatch.setattr(counts, lambda *of: [saved] * len(of[-1]))
    found = ptq.frontier(
        _network(),  # type: ignore[arg-type]
        data,
        equalize=False,
        effort="fast",
        prefer="accuracy",
        threads=1,
    )
    (point,) = [point for point in found.report.points if point.chosen]
    assert bool(point.floats) == chosen
