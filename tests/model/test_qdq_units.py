"""Finding DequantizeLinear → operator → QuantizeLinear; graphs written by hand are the oracle."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from networks import build_network
from parts import W

from ptq.core.types import INT8, UINT8
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.node import Node
from ptq.model.qdq.qdq_units import (
    QuantizedTensor,
    find_quantized_source,
    match_supported_qdq_op,
    to_quant_params,
)
from ptq.model.session.session import Session

CONSTANTS = {
    "s": np.float32(0.5),
    "z": np.uint8(3),
    "t": np.float32(0.25),
    "sw": np.linspace(0.1, 0.8, 8, dtype=np.float32),
    "zw": np.zeros(8, np.int8),
    "qw": np.clip(np.rint(W * 100), -127, 127).astype(np.int8),
}
BEFORE = """
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
w = DequantizeLinear<axis=0>(qw, sw, zw)
"""
AFTER = "p = QuantizeLinear(c, t, z)\ny = DequantizeLinear(p, t, z)"


def found(nodes: str, op: str, outputs: tuple[str, ...] = ("y",)) -> tuple[Node, object]:
    """The node of that operator, and the unit that it is."""
    model = build_network(nodes, None, outputs, **CONSTANTS)
    graph = Graph.from_proto(model).with_shapes()
    node = next(n for n in graph.nodes if n.op_type == op)
    return node, match_supported_qdq_op(node)


def test_an_operator_between_quantizers_is_a_unit() -> None:
    node, made = found(BEFORE + "c = Conv(d, w)\n" + AFTER, "Conv")
    assert made is not None
    x, w = made.inputs
    (y,) = made.outputs
    assert made.node is node
    assert (x.integers.name, w.integers.name, y.integers.name) == ("q", "qw", "p")
    assert (float(x.params.scale), int(x.params.zero_point), x.params.qtype) == (0.5, 3, UINT8)
    assert (w.params.axis, w.params.qtype) == (0, INT8)
    assert float(y.params.scale) == 0.25


def test_an_axis_counted_from_the_end_is_the_same() -> None:
    nodes = BEFORE.replace("axis=0", "axis=-4") + "c = Conv(d, w)\n" + AFTER
    _, made = found(nodes, "Conv")
    assert made.inputs[1].params.axis == 0


def test_indices_and_bounds_are_left_alone() -> None:
    _, made = found(BEFORE + "c = Clip(d, t)\n" + AFTER, "Clip")
    assert isinstance(made.inputs[0], QuantizedTensor)
    assert made.inputs[1].name == "t"


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        (BEFORE + "c = Conv(x, w)\n" + AFTER, ("y",)),
        (BEFORE + "c = Conv(d, w)\ny = Relu(c)", ("y",)),
        (BEFORE + "c = Conv(d, w)\nr = Relu(c)\n" + AFTER, ("y", "r")),
        (BEFORE + "c = Conv(d, w)\n" + AFTER, ("y", "c")),
    ],
    ids=["real input", "real output", "a second reader", "a graph output"],
)
def test_a_real_tensor_makes_it_none(nodes: str, outputs: tuple[str, ...]) -> None:
    assert found(nodes, "Conv", outputs)[1] is None


def test_an_operator_without_a_row_is_none() -> None:
    assert found(BEFORE + "c = Tan(d)\n" + AFTER, "Tan")[1] is None


def test_a_scale_that_is_computed_is_no_quantizer_that_is_understood() -> None:
    nodes = BEFORE + "u = Neg(s)\nc = DequantizeLinear(q, u, z)\ny = Relu(c)"
    model = build_network(nodes, **CONSTANTS)
    node = next(n for n in Graph.from_proto(model).nodes if n.op_type == "Relu")
    assert find_quantized_source(node.inputs[0]) is None


def test_a_scale_of_one_element_is_that_of_the_whole_tensor() -> None:
    params = to_quant_params(np.float32([0.5]), np.int8([3]), np.dtype(np.int8), 1)
    assert params is not None
    assert params.axis is None
    assert params.scale.shape == ()


def test_blocks_and_floats_are_not_understood() -> None:
    two = np.ones((2, 2), np.float32)
    assert to_quant_params(two, None, np.dtype(np.int8), 0) is None
    assert to_quant_params(two[0], None, np.dtype(np.float32), 0) is None


def test_without_a_zero_point_it_is_zero_and_the_type_is_uint8() -> None:
    nodes = "q = QuantizeLinear(x, s)\nd = DequantizeLinear(q, s)\nc = Relu(d)\n" + AFTER
    _, made = found(nodes, "Relu")
    assert int(made.inputs[0].params.zero_point) == 0
    assert made.inputs[0].params.qtype == UINT8
    onnx.checker.check_model(build_network(nodes, **CONSTANTS))


@pytest.mark.parametrize(
    ("scale", "zero", "expected"),
    [
        (np.float32([0.5]), np.zeros(3, np.int8), None),
        (np.float32([0.5, 1]), np.zeros(2, np.int8), (2,)),
        (np.float32([0.5, 1]), np.zeros(3, np.int8), None),
        (np.zeros(0, np.float32), np.int8(0), None),
        (np.float32([0.5, 1]), np.zeros(0, np.int8), None),
        (np.float32(0.5), np.int8([3]), ()),
    ],
)
def test_scales_and_zero_points_are_as_many_as_each_other_or_one(
    scale: np.ndarray, zero: np.ndarray, expected: tuple[int, ...] | None
) -> None:
    found = to_quant_params(np.asarray(scale), np.asarray(zero), np.dtype(np.int8), 0)
    assert (None if found is None else found.scale.shape) == expected
    assert found is None or np.all(found.zero_point == zero)


def test_a_weight_of_one_scale_and_a_zero_point_a_channel_is_what_onnx_runtime_takes_it_for() -> (
    None
):
    constants = {
        "s": np.float32(0.02), "z": np.uint8(7), "w": (10 * W).astype(np.int8),
        "ws": np.float32(0.01), "wz": np.zeros(8, np.int8), "ys": np.float32(0.05),
    }  # fmt: skip
    nodes = "q = QuantizeLinear(x, s, z)\ny = QLinearConv(q, s, z, w, ws, wz, ys, z)"
    graph = Graph.from_proto(build_network(nodes, types={"y": onnx.TensorProto.UINT8}, **constants))
    feed = {"x": np.random.default_rng(0).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)}
    np.testing.assert_array_equal(Executor(graph).run(feed)["y"], Session(graph).run(feed)[0])
