"""Attention over an open number of positions, with ranges of one length and of several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from networks import Array, build_network, gaussian_array
from PIL import Image

import ptq
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.types import UINT8, QuantParams
from ptq.data import Preprocess, open_samples
from ptq.data.splits import list_input_specs
from ptq.evaluation.checks.softmax_length_check import check_softmax_lengths
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph

RUN = RunOptions(threads=1)
ATTENTION = (
    "h = MatMul(x, w)\ns = MatMul(h, v)\nt = Transpose<perm = [0, 2, 1]>(s)\np = Softmax<axis = -1>(t)\n"
    "y = MatMul(p, h)"
)
LONG = (12, 12, 12)


def _attention(length: int | str = "length", spread: float = 0.01) -> Graph:
    """The mean of all positions, nearly: the weights differ as the ``spread`` says."""
    weights = {"w": gaussian_array(16, 16), "v": gaussian_array(16, 1, scale=spread)}
    return Graph.from_proto(build_network(ATTENTION, {"x": ("n", length, 16)}, **weights))


def _feeds(lengths: tuple[int, ...]) -> list[dict[str, Array]]:
    return [{"x": gaussian_array(1, n, 16, seed=i)} for i, n in enumerate(lengths)]


def _check(graph: Graph, lengths: tuple[int, ...], end: float) -> Diagnosis | None:
    """The diagnosis where the range of the weights ends at ``end``."""
    plan = Plan("ort", "", tensors={"p": QuantParams.per_tensor(end / 255, 0, UINT8)})
    samples = open_samples(_feeds(lengths), list_input_specs(graph))
    return check_softmax_lengths(graph, plan, samples, run=RUN)


def test_a_range_that_fewer_positions_certainly_exceed_is_found() -> None:
    found = _check(_attention(), LONG, 0.11)
    assert found is not None
    assert str(found).startswith(
        "p (output of a Softmax): all samples have 12 positions, and its range ends at 0.11: too low for fewer than "
        "10 positions; calibrate with samples of several lengths"
    )


def test_it_does_not_speak_of_samples_that_it_has_not_run() -> None:
    found = _check(_attention(), (12,) * 20, 0.11)
    assert found is not None
    assert "16 of 20 samples, spread over all, have 12 positions" in str(found)


@pytest.mark.parametrize(
    ("length", "lengths", "end"),
    [
        ("length", (12, 12, 6), 0.11),  # the samples show what lengths there are
        ("length", LONG, 0.17),  # holds for 6 positions
        ("length", LONG, 1.0),
        ("length", (1, 1), 0.9),
        (12, LONG, 0.11),  # there is no other length
    ],
)
def test_nothing_is_found_where_no_much_shorter_input_is_certain_to_exceed_it(
    length: int | str, lengths: tuple[int, ...], end: float
) -> None:
    assert _check(_attention(length), lengths, end) is None


def test_images_of_one_size_are_as_they_should_be(tmp_path: Path) -> None:
    graph = Graph.from_proto(
        build_network(
            "r = Reshape(x, rows)\np = Softmax<axis = -1>(r)\ny = Relu(p)",
            {"x": ("n", 3, "h", "w")},
            rows=np.array([0, 3, -1]),
        )
    )
    for index in range(2):
        Image.fromarray(np.full((4, 4, 3), index, np.uint8)).save(tmp_path / f"{index}.png")
    images = open_samples(tmp_path, list_input_specs(graph), Preprocess(size=(4, 4)))
    pixels = [sample.feed for sample in images]
    arrays = open_samples(pixels, list_input_specs(graph))
    plan = Plan("ort", "", tensors={"p": QuantParams.per_tensor(0.08 / 255, 0, UINT8)})
    assert check_softmax_lengths(graph, plan, arrays, run=RUN) is not None
    assert check_softmax_lengths(graph, plan, images, run=RUN) is None


def test_shorter_inputs_are_bad_where_the_warning_stands_and_samples_of_their_length_mend_both() -> (
    None
):
    figures = []
    for lengths in (LONG * 4, (12, 3) * 6):
        report = ptq.quantize(
            _attention().to_proto(), _feeds(lengths), eval_data=_feeds((3,) * 12),
            equalize=False, method="minmax", rounding="nearest", threads=1,
        ).report  # fmt: skip
        assert report.evaluation is not None
        warned = any("all samples have 12 positions" in found.what for found in report.suspects)
        figures.append((warned, report.evaluation.forms["int8"].outputs["y"].sqnr_db))
    [(warned_long, long_db), (warned_both, both_db)] = figures
    assert (warned_long, warned_both) == (True, False)
    assert long_db < 10  # 4.0
    assert both_db > 30  # 37.7
