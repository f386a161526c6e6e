"""The rule by which nodes stay float without being asked for, on a network that int8 spoils at one tensor."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.data import Sample
from ptq.optimization.mixed_precision.knee.decisions import CountedDecisions
from ptq.optimization.mixed_precision.knee.saved_decisions import SavedDecisions
from ptq.optimization.preference import PREFERENCES

BODY = """
a = Conv<pads = [1, 1, 1, 1]>(x, u)
b = Relu(a)
e = Conv<pads = [1, 1, 1, 1]>(b, t)
f = Relu(e)
"""
TEXT = f"""{BODY}g = Conv<pads = [1, 1, 1, 1]>(f, s)
p = GlobalAveragePool(g)
c = Conv(p, v)
d = Conv(c, w)
y = Flatten(d)
"""
EQUAL = f"{BODY}y = Conv<pads = [1, 1, 1, 1]>(f, s)"
LAYERS = {"u": (48, 8, 3, 3), "t": (48, 48, 3, 3), "s": (48, 48, 3, 3)}
SPOILED = {"Conv_c", "Conv_d"}
"""One channel between them is much larger than the others, and the second one hardly reads it."""


def _network(factor: float, outputs: int = 12) -> Any:
    v, w = gaussian_array(8, 48, 1, 1), gaussian_array(outputs, 8, 1, 1)
    v[0] *= factor
    w[:, 0] /= factor
    weights = {"u": gaussian_array(48, 8, 3, 3), "v": v, "w": w}
    weights |= {"t": 0.9 * gaussian_array(48, 48, 3, 3), "s": 1.1 * gaussian_array(48, 48, 3, 3)}
    weights = {name: (array / 8).astype(np.float32) for name, array in weights.items()}
    return build_network(TEXT, {"x": (1, 8, 24, 24)}, **weights)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "samples.npz"
    np.savez(path, x=gaussian_array(40, 8, 24, 24).astype(np.float32))
    return path


@cache
def _quantize(data: Path, factor: float = 20.0, **options: Any) -> ptq.Result:
    return ptq.quantize(_network(factor), data, equalize=False, threads=1, **options)


def _knee(result: ptq.Result) -> set[str]:
    return {name for name, why in result.plan.floats.items() if why.startswith("error: ")}


def test_a_model_of_too_many_tensors_stays_int8(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptq.optimization.mixed_precision.knee.knee.MAX_TENSORS", 3)
    result = ptq.quantize(_network(20.0), data, equalize=False, threads=1)
    assert len(result.plan.tensors) > 3
    assert not _knee(result)


def test_nodes_that_cause_most_of_the_error_for_little_time_stay_float(data: Path) -> None:
    result = _quantize(data)
    assert _knee(result) >= SPOILED
    (line,) = [line for line in result.report.changes if line.startswith("left in float: ")]
    assert line.endswith("(estimated; prefer balanced)")


def test_nodes_with_most_of_the_weights_stay_int8_however_much_error_they_cause(data: Path) -> None:
    found, plain = (
        ptq.quantize(_network(20.0, 12_000), data, equalize=False, threads=1, prefer=prefer)
        for prefer in ("balanced", "speed")
    )
    assert "Conv_d" not in _knee(found)
    half = (plain.report.int8_bytes + plain.report.float_bytes) / 2
    assert found.report.int8_bytes < half


def test_what_the_self_check_keeps_float_is_not_paid_for_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check asks for more than the spoiled tensor leaves: what it keeps float is all that the rule would keep."""
    monkeypatch.setattr("ptq.optimization.self_check.checks.MIN_SQNR_DB", 37.0)
    found, plain = (
        ptq.quantize(_network(20.0), data, equalize=False, threads=1, prefer=prefer)
        for prefer in ("balanced", "speed")
    )
    assert any(why.startswith("self-check: ") for why in plain.plan.floats.values())
    assert not _knee(found)
    assert found.plan.to_json() == plain.plan.to_json()


def test_the_error_is_less_than_half_of_that_of_all_int8(data: Path) -> None:
    found, plain = _quantize(data), _quantize(data, prefer="speed")
    assert not _knee(plain)
    assert _sqnr_db(found) > _sqnr_db(plain) + 3


def test_a_network_without_a_knee_stays_all_int8_and_has_the_same_bytes(data: Path) -> None:
    weights = {name: gaussian_array(*shape) / 8 for name, shape in LAYERS.items()}
    model = build_network(
        EQUAL, {"x": (1, 8, 24, 24)}, **{n: w.astype(np.float32) for n, w in weights.items()}
    )
    found, plain = (
        ptq.quantize(model, data, equalize=False, threads=1, prefer=prefer)
        for prefer in ("balanced", "speed")
    )
    assert found.report.frontier is not None
    assert not _knee(found)
    assert found.plan.to_json() == plain.plan.to_json()


def test_the_fast_effort_estimates_nothing(data: Path) -> None:
    assert not _knee(_quantize(data, effort="fast"))


def test_a_runtime_without_measured_times_gets_all_int8(data: Path) -> None:
    assert not _knee(_quantize(data, target="litert"))


def test_the_same_samples_leave_the_same_nodes_float(data: Path) -> None:
    again = ptq.quantize(_network(20.0), data, equalize=False, threads=1)
    assert again.graph.to_bytes() == _quantize(data).graph.to_bytes()


def test_a_speed_that_cannot_be_reached_is_a_budget_error_that_carries_the_result(
    data: Path,
) -> None:
    with pytest.raises(ptq.BudgetError, match="at least 1000 was asked for") as error:
        _quantize(data, min_speedup=1000.0, strict=True)
    assert isinstance(error.value.result, ptq.Result)


def test_the_speed_that_is_asked_for_forbids_slower_float_nodes(data: Path) -> None:
    assert not _knee(_quantize(data, min_speedup=1000.0))


def test_no_speed_at_least_forbids_nothing(data: Path) -> None:
    assert _knee(_quantize(data, min_speedup=0)) == _knee(_quantize(data)) != set()


@pytest.mark.parametrize("value", ["most", "", 3])
def test_an_unknown_preference_is_refused_with_all_names(data: Path, value: object) -> None:
    with pytest.raises(ptq.UsageError, match="prefer") as error:
        ptq.quantize(_network(1.0), data, prefer=value)  # type: ignore[arg-type]
    assert all(name in str(error.value) for name in PREFERENCES)


def _sqnr_db(result: ptq.Result) -> float:
    assert result.report.evaluation is not None
    return result.report.evaluation.forms["int8"].outputs["y"].sqnr_db


def test_the_report_and_its_json_have_the_curve_that_the_rule_estimates(data: Path) -> None:
    result = _quantize(data)
    frontier = result.report.frontier
    assert frontier is not None
    speeds = [point.speed for point in frontier.points]
    assert len(speeds) > 2
    assert speeds[1:] == sorted(speeds[1:], reverse=True)  # the first is all int8 in any case
    errors = [point.sqnr_db for point in frontier.points if not point.chosen]
    assert errors == sorted(errors)
    (chosen,) = [point for point in frontier.points if point.chosen]
    assert set(chosen.floats) == _knee(result)
    assert not frontier.points[0].floats
    assert list(frontier.error_shares.values()) == sorted(
        frontier.error_shares.values(), reverse=True
    )
    document = json.loads(result.report.to_json())["frontier"]
    assert [point["number"] for point in document["points"]] == list(range(len(speeds)))
    assert "Speed against error" in result.to_html()


def test_without_the_rule_there_is_no_curve(data: Path) -> None:
    assert _quantize(data, prefer="speed").report.frontier is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"effort": "fast"}, "effort fast does not attribute the error"),
        ({"target": "litert", "effort": "fast"}, "no times decide for target litert"),
        ({"target": "openvino", "effort": "fast"}, "no times decide for target openvino"),
        ({"plan": True}, "the plan has the float nodes"),
    ],
    ids=["fast", "litert", "openvino", "plan"],
)
def test_a_preference_without_effect_is_named(
    data: Path, options: dict[str, Any], reason: str
) -> None:
    if "plan" in options:
        options = {"plan": _quantize(data).plan}
    given = {"equalize": False, "threads": 1, "force": True, **options}
    changes = ptq.quantize(_network(20.0), data, prefer="accuracy", **given).report.changes
    assert f"prefer accuracy has no effect: {reason}" in changes
    plain = ptq.quantize(_network(20.0), data, **given).report.changes
    assert not [line for line in plain if "has no effect" in line]


def test_a_preference_with_effect_is_not_named(data: Path) -> None:
    changes = _quantize(data, prefer="accuracy").report.changes
    assert not [line for line in changes if "has no effect" in line]


@pytest.mark.parametrize(("left", "kept"), [(2.0, True), (4.0, False), (6.0, False)])
def test_nodes_stay_float_only_if_that_saves_boxes_on_the_samples(
    data: Path, left: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in integers changes 5 of 50; the counts are given, as is that samples hold several boxes."""
    knee = "ptq.optimization.mixed_precision.knee.knee"
    task: Any = None
    names = [Sample(f"s{k}", {}) for k in range(2)]

    def choose(self: CountedDecisions, count: int) -> None:
        return None

    counted = CountedDecisions(task, names, [1, 49], 0.1)
    saved = SavedDecisions(2, 50.0, 5.0, left, (0.0, 0.0))
    monkeypatch.setattr(CountedDecisions, "choose_samples", choose)
    monkeypatch.setattr(f"{knee}.count_decisions", lambda *_: counted)
    counts = "ptq.optimization.mixed_precision.knee.saved_decisions.count_saved_decisions"
    monkeypatch.setattr(counts, lambda *of: [saved] * len(of[-1]))
    result = ptq.quantize(_network(20.0), data, equalize=False, threads=1)
    assert bool(_knee(result)) == kept
    assert all(
        why.endswith("; such nodes save 3 of 50 decisions")
        for why in result.plan.floats.values()
        if why.startswith("error: ")
    )
    start = "left in float: " if kept else "all in integers: with "
    (line,) = [line for line in result.report.changes if line.startswith(start)]
    assert f"{left:.0f} instead of 5 of 50 decisions change on 2 samples" in line
    frontier = result.report.frontier
    assert frontier is not None
    (chosen,) = [point for point in frontier.points if point.chosen]
    assert set(chosen.floats) == _knee(result)
    if not kept:
        plain = _quantize(data, prefer="speed")
        assert result.plan.to_json() == plain.plan.to_json()
