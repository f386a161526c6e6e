"""Results that are no improvement are reported as none; the figures are set here."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.api.quantize import quantize
from ptq.core.errors import NoGainError
from ptq.core.wording import describe_size_ratio
from ptq.evaluation.exports.report import Report
from ptq.evaluation.report.benefit_check import check_benefit, check_opset, require_gain
from ptq.evaluation.report.computed_constants import count_computed_bytes
from ptq.evaluation.report.report_data import NodeRow
from ptq.model.graph import Graph
from ptq.rewrite.prepare.prepare import prepare

FASTER, SLOWER, UNSURE = (1.5, (1.4, 1.6)), (0.5, (0.45, 0.55)), (0.9, (0.7, 1.1))
FLOATS = (NodeRow("a", "Sin", "float", "operator Sin is not supported"),)
BARELY = (0.97, (0.96, 0.98))


def report_of(
    sizes: tuple[int, int], speed: Any = None, target: str = "ort", **more: Any
) -> Report:
    ratio, interval = speed or (None, None)
    return Report(
        model="m.onnx", target=target, method="minmax", form="qdq", arithmetic="ort", changes=(), preprocessing={},
        calibration_samples=1, evaluated_on="", evaluation=None, float_bytes=sizes[0], int8_bytes=sizes[1],
        speed=ratio, speed_interval=interval, islands={}, tensors=(), **{"nodes": (), **more},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (4000, 1000, "4.00 times smaller"),
        (1000, 2800, "2.80 times larger"),
        (9, 9, "about as large"),
        (1000, 1004, "about as large"),
        (1000, 1006, "1.01 times larger"),
    ],
)
def test_a_ratio_of_sizes_is_never_below_1(before: int, after: int, text: str) -> None:
    assert describe_size_ratio(before, after) == text


@pytest.mark.parametrize(
    ("sizes", "speed", "target", "parts"),
    [
        (
            (1000, 2800), SLOWER, "ort",
            ["2.80 times larger and 2.00 times slower", "nothing is gained"],
        ),
        ((1000, 1001), SLOWER, "ort", ["slightly larger and 2.00 times slower than float"]),
        ((1000, 2800), FASTER, "ort", ["2.80 times larger than float (quantizers and float32 weights"]),
        ((1000, 2800), None, "ort", ["2.80 times larger than float (quantizers and float32 weights"]),
        ((4000, 1000), SLOWER, "ort", ["2.00 times slower than float (quantizers take more time"]),
        ((4000, 1000), BARELY, "ort", ["1.03 times slower than float (quantizers take more time"]),
        ((1000, 2800), SLOWER, "litert", ["2.80 times larger than float (quantizers and float32 weights"]),
    ],
)  # fmt: skip
def test_a_result_larger_or_slower_than_float_is_named_with_the_reason(
    sizes: tuple[int, int], speed: Any, target: str, parts: list[str]
) -> None:
    (found,) = check_benefit(report_of(sizes, speed, target))
    assert all(part in found.what for part in parts)
    assert "use the float model" in found.advice
    assert found.headline


def test_the_reasons_that_were_found_stand_in_the_first_line() -> None:
    slow = {"slow_causes": ("float islands", "few rows")}
    (found,) = check_benefit(report_of((4000, 1000), SLOWER, **slow))
    assert found.what == "2.00 times slower than float (float islands and few rows)"
    (found,) = check_benefit(report_of((1000, 2800), FASTER, **slow))
    assert "islands" not in found.what


def test_a_result_without_integers_does_not_name_its_quantizers_as_cause() -> None:
    nodes = (NodeRow("a", "Sin", "float", "operator Sin is not supported"),)
    (found,) = check_benefit(report_of((1000, 1001), nodes=nodes))
    assert found.what.endswith(
        "larger than float (no node computes on integers; only names and metadata were added)"
    )
    assert found.advice == "use the float model"
    assert found.topic == "nothing-or-hardly-anything-is-quantized"
    mixed = (*nodes, NodeRow("b", "Conv", "int8", ""))
    (found,) = check_benefit(report_of((1000, 1001), nodes=mixed))
    assert "take more bytes" in found.what
    assert "small layers" in found.advice


@pytest.mark.parametrize(
    ("speed", "target"),
    [
        (FASTER, "ort"),
        (UNSURE, "ort"),
        ((0.2, (0.0, math.inf)), "ort"),
        (SLOWER, "litert"),
        (SLOWER, "tensorrt"),
    ],
)
def test_no_speed_of_noise_or_of_another_runtime_is_a_fault(speed: Any, target: str) -> None:
    assert list(check_benefit(report_of((4000, 1000), speed, target))) == []
    require_gain(report_of((1_000_000, 2_800_000), speed, target), None)


def test_constants_that_float_computes_are_the_reason_and_refuse_nothing() -> None:
    more = {"computed_bytes": 1_200_000}
    report = report_of((1_000_000, 2_800_000), SLOWER, **more)
    (found,) = check_benefit(report)
    assert "(it stores constants that the float model computes, 1.2 MB; quantizers" in found.what
    require_gain(report, None)
    with pytest.raises(NoGainError):
        require_gain(report_of((1_000_000, 3_300_000), SLOWER, **more), None)
    (found,) = check_benefit(report_of((1_000_000, 1_000_001), SLOWER, nodes=FLOATS))
    assert "no node computes on integers" in found.what
    (found,) = check_benefit(report_of((1_000_000, 2_000_000), FASTER, **more))
    assert found.advice == "use the float model"
    (found,) = check_benefit(report_of((1_000_000, 2_000_000), nodes=FLOATS, **more))
    assert "it stores constants" in found.what


def test_bytes_of_evaluated_constants_are_counted_less_those_that_they_come_from() -> None:
    network = build_network(
        "t = Mul(row, column)\nwave = Cos(t)\nother = Sin(t)\nz = MatMul(x, wave)\nv = MatMul(x, other)\n"
        "c = Cast <to = 1> (half)\ns = Add(z, v)\ny = Add(s, c)",
        {"x": (1, 32)},
        row=np.arange(64, dtype=np.float32)[None] / 9,
        column=np.arange(32, dtype=np.float32)[:, None] / 7,
        half=np.zeros((1, 64), np.float16),
    )  # fmt: skip
    source = Graph.from_proto(network)
    prepared = prepare(source).graph
    waves, half = 4 * (2 * 64 * 32 - 64 - 32), (4 - 2) * 64
    assert count_computed_bytes(prepared, source) == waves + half
    assert count_computed_bytes(source, source) == 0


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_integers_of_evaluated_constants_are_counted_and_those_of_given_weights_are_not(
    form: Any,
) -> None:
    weight, row, column = (
        gaussian_array(*shape, seed=9) for shape in ((32, 32), (1, 640), (32, 1))
    )
    network = build_network(
        "t = Mul(row, column)\nwave = Cos(t)\nh = MatMul(x, weight)\ny = MatMul(h, wave)",
        {"x": (1, 32)}, weight=weight, row=row, column=column,
    )  # fmt: skip
    samples = [{"x": gaussian_array(1, 32, seed=k)} for k in range(4)]
    made = quantize(network, samples, effort="fast", form=form, force=True)
    assert made.report.computed_bytes == 32 * 640 - 4 * (640 + 32)


def test_evaluated_constants_are_counted_in_memory_that_grows_with_the_model() -> None:
    count = 2000
    network = build_network(
        "\n".join(f"h{k + 1} = Add(h{k}, w{k})" for k in range(count)).replace(f"h{count} ", "y "),
        {"h0": (1, 4)},
        **{f"w{k}": np.zeros((1, 4), np.float32) for k in range(count)},
    )
    source = Graph.from_proto(network)
    tracemalloc.start()
    try:
        assert count_computed_bytes(source, source) == 0
        assert tracemalloc.get_traced_memory()[1] < 2000 * count
    finally:
        tracemalloc.stop()


def test_a_result_larger_and_slower_is_refused_and_the_error_carries_it() -> None:
    with pytest.raises(NoGainError, match=r"2\.80 times larger and 2\.00 times slower") as caught:
        require_gain(report_of((1_000_000, 2_800_000), SLOWER), "the result")
    assert caught.value.result == "the result"
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("sizes", "speed"),
    [
        ((4_000_000, 1_000_000), SLOWER),
        ((1_000_000, 2_800_000), FASTER),
        ((400_000, 1_000_000), SLOWER),
        ((1_000_000, 2_800_000), BARELY),
    ],
    ids=["smaller", "faster", "0.6 MB more", "3 % slower"],
)
def test_a_result_that_gains_or_grows_by_little_is_not_refused(
    sizes: tuple[int, int], speed: Any
) -> None:
    require_gain(report_of(sizes, speed), None)


def test_s11_a_raised_opset_is_named_with_both_numbers() -> None:
    (found,) = check_opset(17, 20)
    assert found.what.startswith("raised from 17 to 20")
    assert "that does not read opset 20" in found.what  # one that reads 19 does not load it either
    assert list(check_opset(17, 17)) == []
