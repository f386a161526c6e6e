"""Sums and comparisons on whose scales LiteRT would end its process stay float."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.model.litert_limits import find_comparison_limit, find_sum_limit

OPTIONS = {"effort": "fast", "threads": 1, "force": True}
SHAPES = {"x": (1, 4, 4, 4), "z": (1, 4, 4, 4)}
ROWS = gaussian_array(8, 4, 4, 4)


def statuses(text: str, scale: float, target: str) -> dict[str, str]:
    """How each operator is computed, or why not as integers, where x is always 0."""
    data = {"x": ROWS * np.float32(0), "z": ROWS * np.float32(scale)}
    model = build_network(text, SHAPES, ("y",))
    report = ptq.quantize(model, data, target=target, **OPTIONS).report  # type: ignore[arg-type]
    return {row.op: row.why if row.fate == "float" else row.fate for row in report.nodes}


@pytest.mark.parametrize(
    ("target", "scale", "fits"),
    [
        ("litert", 1e-3, True),
        ("litert", 1e-7, False),
        ("litert-a16", 1.0, True),
        ("litert-a16", 1e-3, False),
        ("ort", 1e-7, True),
    ],
)
@pytest.mark.parametrize(
    "text", ["y = Add(x, z)", "y = Sub(z, x)", "a = Add(x, z)\ny = Relu(a)", "a = Add(z, x)\ny = Neg(a)"]
)  # fmt: skip
def test_a_sum_much_smaller_than_a_scale_of_its_inputs_stays_float(
    text: str, target: str, scale: float, fits: bool
) -> None:
    found = statuses(text, scale, target)
    op = "Sub" if "Sub" in text else "Add"
    assert ("LiteRT cannot add integers of scale 1 to a sum" in found[op]) == (not fits)
    assert (found[op] == "int8") == fits or target == "ort"


@pytest.mark.parametrize("op", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize(("top", "fits"), [(255.0, False), (254.0, True), (510.0, True)])
def test_a_comparison_of_integers_of_scale_1_stays_float(op: str, top: float, fits: bool) -> None:
    rows = np.linspace(0, top, ROWS.size, dtype=np.float32).reshape(ROWS.shape)
    model = build_network(f"c = {op}(x, z)\ny = Where(c, x, z)", SHAPES, ("y",), opset=19)
    options = {**OPTIONS, "target": "litert", "method": "minmax"}
    made = ptq.quantize(model, {"x": rows, "z": rows[::-1].copy()}, **options)  # type: ignore[arg-type]
    [row] = [row for row in made.report.nodes if row.op == op]
    assert (row.fate == "int8") == fits
    assert ("integers of scale 1" in row.why) == (not fits)


@pytest.mark.parametrize(("bits", "shift"), [(8, 19), (16, 14)])
def test_the_limit_of_a_sum_is_that_of_its_multiplier(bits: int, shift: int) -> None:
    assert find_sum_limit([1.0, 0.25], 2.0**-shift, bits)
    assert not find_sum_limit([1.0, 0.25], 1.001 * 2.0**-shift, bits)
    assert not find_sum_limit([0.25, 0.25], 2.0**-shift, bits)


def test_only_scale_1_cannot_be_compared() -> None:
    assert find_comparison_limit([0.5, 1.0])
    assert not find_comparison_limit([0.5, np.nextafter(np.float32(1), np.float32(2))])


@pytest.mark.parametrize(
    ("bounds", "target", "fits"),
    [
        ("-0.7, 1.3", "litert-a16", False),
        ("-0.7, 1.3", "litert", True),
        ("0.0, 6.0", "litert-a16", True),
    ],
)
def test_a_clamp_that_changes_the_scale_of_16_bits_stays_float(
    bounds: str, target: str, fits: bool
) -> None:
    model = build_network(
        "m = Sigmoid(x)\ny = Clip(m, lo, hi)",
        {"x": (1, 4, 4)},
        ("y",),
        **dict(zip(("lo", "hi"), np.float32(bounds.split(", ")), strict=True)),
    )
    made = ptq.quantize(model, {"x": ROWS[:, 0]}, target=target, form="tflite", **OPTIONS)  # type: ignore[arg-type]
    [row] = [row for row in made.report.nodes if row.op == "Clip"]
    assert (row.fate != "float") == fits
    assert ("LiteRT cannot clamp 16-bit integers to -0.7 … 1.3" in row.why) == (not fits)
