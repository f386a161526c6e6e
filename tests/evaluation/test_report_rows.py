"""The report's tables; float64 over the same numbers is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import CASES, quantized_case
from networks import build_network, gaussian_array, quantize_network
from onnx.numpy_helper import to_array
from parts import W

import ptq
from ptq.evaluation.report.report_rows import build_node_rows, build_tensor_rows


def test_rows_are_worst_first_and_say_why() -> None:
    done = quantized_case("residual")
    rows = build_tensor_rows(done.prepared, done.plan, done.calibration.tensors, {})
    assert [row.sqnr_db for row in rows] == sorted(row.sqnr_db for row in rows)
    assert {row.name for row in rows} == {"x", "r", "d", "y", "w", "v"}
    for row in rows:
        assert row.why
        assert 0 <= row.rounding <= 1
        assert 0 <= row.saturation <= 1
        assert row.lo <= 0 <= row.hi


def test_the_error_of_a_weight_is_that_of_its_rounding() -> None:
    done = quantized_case("relu")
    rows = build_tensor_rows(done.prepared, done.plan, done.calibration.tensors, {})
    (row,) = [row for row in rows if row.kind == "weight"]
    w = W.astype(np.float64)
    scale = np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 127
    noise = ((np.rint(w / scale) * scale - w) ** 2).sum()
    assert row.sqnr_db == pytest.approx(10 * np.log10((w**2).sum() / noise), abs=0.05)
    assert row.hi == pytest.approx(np.abs(w).max(), rel=1e-6)


@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("text", ["y = MatMul(x, w)", "y = Gemm<transB = 1>(x, w)"])
def test_the_error_of_a_weight_of_many_blocks_is_that_of_the_whole(
    text: str, per_tensor: bool
) -> None:
    inputs, outputs = 3001, 37
    transposed = "transB" in text
    weight = gaussian_array(outputs, inputs) if transposed else gaussian_array(inputs, outputs)
    model = build_network(text, {"x": (1, inputs)}, w=weight)
    done = quantize_network(model, per_tensor=per_tensor)
    rows = build_tensor_rows(done.prepared, done.plan, done.calibration.tensors, {})
    [row] = [row for row in rows if row.kind == "weight"]
    [params] = [params for (_, position), params in done.plan.operands.items() if position == 1]
    channels = outputs if params.axis is not None else 1
    assert params.scale.size == channels
    scale = params.scale.reshape((channels, 1) if transposed else (1, channels))
    exact = weight.astype(np.float64)
    noise = ((np.clip(np.rint(weight / scale), -127, 127) * scale - exact) ** 2).sum()
    assert row.sqnr_db == pytest.approx(10 * np.log10((exact**2).sum() / noise), abs=1e-3)


def test_the_error_of_a_weight_is_that_of_the_integers_in_the_file() -> None:
    weight = gaussian_array(16, 8, scale=0.3)
    model = build_network("y = MatMul(x, w)", {"x": ("n", 16)}, w=weight)
    x = gaussian_array(256, 16) @ (np.eye(16) + 0.9).astype(np.float32)  # inputs that go together
    options: dict[str, Any] = {"rounding": "second-order", "equalize": False, "threads": 1}
    result = ptq.quantize(model, {"x": x}, **options)
    assert "second-order (GPTQ) in 1 layer" in " ".join(result.report.changes)
    stored = {i.name: to_array(i) for i in result.model.graph.initializer}
    [node] = [
        n for n in result.model.graph.node if n.input[0] in stored and stored[n.input[0]].ndim == 2
    ]
    written = stored[node.input[0]].astype(np.float64) * stored[node.input[1]]
    noise = ((written - weight) ** 2).sum()
    [row] = [row for row in result.report.tensors if row.kind == "weight"]
    assert row.sqnr_db == pytest.approx(10 * np.log10((weight**2).sum() / noise), abs=1e-3)
    assert (
        noise
        > ((np.rint(weight / stored[node.input[1]]) * stored[node.input[1]] - weight) ** 2).sum()
    )


def test_the_error_of_an_activation_is_near_the_true_one() -> None:
    done = quantized_case("relu")
    rows = build_tensor_rows(done.prepared, done.plan, done.calibration.tensors, {})
    (row,) = [row for row in rows if row.name == "x"]
    values = np.concatenate([feed["x"].ravel() for feed in done.feeds]).astype(np.float64)
    params = done.plan.tensors["x"]
    noise = ((params.dequantize(params.quantize(values)) - values) ** 2).sum()
    assert row.sqnr_db == pytest.approx(10 * np.log10((values**2).sum() / noise), abs=0.5)


@pytest.mark.parametrize(
    ("name", "node", "fate", "why"),
    [
        ("relu", "Conv_c", "int8", ""),
        ("relu", "Relu_y", "folded", "included in the requantization of Conv_c"),
        ("if capturing", "choice", "float", "operator If is not supported"),
    ],
)
def test_every_node_has_a_precision(name: str, node: str, fate: str, why: str) -> None:
    done = quantized_case(name)
    rows = {row.name: row for row in build_node_rows(done.prepared, done.plan)}
    assert list(rows) == [n.name for n in done.prepared.nodes]
    assert (rows[node].fate, rows[node].why) == (fate, why)


def test_a_clamp_says_its_bounds() -> None:
    done = quantized_case("clip 1 5")
    clamp = done.plan.clamps["Clip_y"]
    (row,) = [r for r in build_node_rows(done.prepared, done.plan) if r.name == "Clip_y"]
    assert row.fate == "clamp"
    assert row.why == f"to [{clamp.lo}, {clamp.hi}] after Conv_c"


def test_a_skipped_node_brings_no_row_of_its_weight() -> None:
    done = quantize_network(CASES["residual"], skip=["Conv_d"])
    rows = build_tensor_rows(done.prepared, done.plan, done.calibration.tensors, {})
    assert "v" not in {row.name for row in rows}
