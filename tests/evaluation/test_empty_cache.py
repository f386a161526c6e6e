"""Decoders with a cache of keys and values, calibrated with their first step and without it."""

from __future__ import annotations

import pytest
from networks import Array, build_network, gaussian_array

import ptq
from ptq.data import open_samples
from ptq.data.splits import list_input_specs
from ptq.evaluation.checks.empty_cache_check import check_empty_cache, find_caches
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph

DECODER = (
    "h = MatMul(x, w)\nkeys = Concat<axis = -2>(past, h)\nt = Transpose<perm = [0, 2, 1]>(keys)\n"
    "s = MatMul(h, t)\np = Softmax<axis = -1>(s)\ny = MatMul(p, keys)"
)
WIDTH = 8


def _decoder(past: str = "past", length: int | str = "positions", text: str = DECODER) -> Graph:
    shapes = {"x": ("n", 1, WIDTH), past: ("n", length, WIDTH)}
    weights = {"w": gaussian_array(WIDTH, WIDTH)}
    outputs = ["y", "keys"]
    text = text.replace("past", past)
    return Graph.from_proto(build_network(text, shapes, outputs=outputs, **weights))


def _feeds(lengths: list[int], past: str = "past") -> list[dict[str, Array]]:
    return [
        {"x": gaussian_array(1, 1, WIDTH, seed=k), past: gaussian_array(1, n, WIDTH, seed=k + 99)}
        for k, n in enumerate(lengths)
    ]


def _check(graph: Graph, lengths: list[int], past: str = "past") -> Diagnosis | None:
    return check_empty_cache(graph, open_samples(_feeds(lengths, past), list_input_specs(graph)))


def test_a_cache_is_an_input_that_grows_and_is_given_out() -> None:
    assert find_caches(_decoder()) == {"past": 1}
    assert find_caches(_decoder(length=5)) == {}
    inside = DECODER.replace("keys = Concat", "k = Concat").replace("(keys)", "(k)")
    assert find_caches(_decoder(text=f"{inside}\nkeys = Relu(k)".replace("p, keys", "p, k"))) == {}
    joined = "keys = Concat<axis = 1>(x, past)\ny = MatMul(keys, w)"
    assert find_caches(_decoder(text=joined)) == {}  # both are given


def test_samples_without_a_first_step_are_a_warning() -> None:
    found = _check(_decoder(), [3, 4, 5])
    assert str(found) == (
        "past (input): it is a cache that is empty in none of 3 calibration samples: ranges may not hold for the "
        "first step; calibrate with first steps too, unless another model runs them"
    )


@pytest.mark.parametrize(
    ("past", "lengths"), [("past", [4, 0, 5]), ("past_key_values_0_encoder_key", [3, 4])]
)
def test_first_steps_that_were_seen_or_belong_to_another_model_are_no_warning(
    past: str, lengths: list[int]
) -> None:
    assert _check(_decoder(past), lengths, past) is None


def test_the_report_has_the_warning() -> None:
    model = _decoder().to_proto()
    for lengths, warned in (([3, 4, 5, 6], True), ([0, 4, 0, 6], False)):
        report = ptq.quantize(
            model, _feeds(lengths), eval_data=_feeds(lengths), effort="fast", threads=1, force=True
        ).report
        assert any("it is a cache" in warning for warning in report.warnings) is warned
