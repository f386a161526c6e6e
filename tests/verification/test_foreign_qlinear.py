"""QLinear operators in forms that only a hand or an optimizer writes: ONNX Runtime is the oracle, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from foreign_models import foreign_graph, random_integers, random_samples
from onnx import TensorProto

from ptq.core.run_options import RunOptions
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.verification.conversion import convert_graph
from ptq.verification.lint import lint_graph
from ptq.verification.node_status import list_node_statuses
from ptq.verification.verify import verify_graph

ROWS = (5, 16)
SIGNED = {"x_zero": np.int8(-8), "y_zero": np.int8(-20)}
PROBABILITIES = {"y_scale": np.float32(1 / 256), "y_zero": np.uint8(0)}
SCALES = np.linspace(0.005, 0.02, 8, dtype=np.float32)


def _linear(node: str, shape: tuple[int, ...] = ROWS, **constants: Any) -> Graph:
    """One operator between a quantizer and a dequantizer."""
    nodes = f"xq = QuantizeLinear(x, x_scale, x_zero)\nyq = com.microsoft.{node}\n"
    return foreign_graph(nodes + "y = DequantizeLinear(yq, y_scale, y_zero)", shape, **constants)


def _assert_both_forms_are_onnx_runtimes(graph: Graph, shape: tuple[int, ...], op: str) -> None:
    found = verify_graph(graph, random_samples(shape), run=RunOptions(threads=1))
    assert found.equal, found.first
    assert op in {tensor.op for tensor in found.tensors}
    sessions = [Session(form, threads=1) for form in (graph, convert_graph(graph, "qdq"))]
    for sample in random_samples(shape):
        one, other = (session.run(sample.feed)[0] for session in sessions)
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("node", "op"),
    [
        ("QLinearSigmoid(x, x_scale, , y_scale, y_zero)", "Sigmoid"),
        ("QLinearLeakyRelu<alpha = 0.3>(x, x_scale, , y_scale, y_zero)", "LeakyRelu"),
    ],
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_zero_point_left_out_is_0_in_the_type_of_the_integers(node, op, dtype):
    kind = TensorProto.INT8 if dtype is np.int8 else TensorProto.UINT8
    graph = foreign_graph(
        f"y = com.microsoft.{node}",
        ROWS,
        input_type=kind,
        outputs={"y": kind},
        y_zero=dtype(7),
    )
    every = random_samples(ROWS, dtype=dtype)
    found = verify_graph(graph, every, run=RunOptions(threads=1))
    assert found.equal, found.first
    assert {tensor.op for tensor in found.tensors} == {op}
    one, other = (Session(form, threads=1) for form in (graph, convert_graph(graph, "qdq")))
    for sample in every:
        assert one.run(sample.feed)[0].tobytes() == other.run(sample.feed)[0].tobytes()


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1,), ()], ids=str)
@pytest.mark.parametrize("scales", [SCALES, np.float32(0.01)], ids=["a column", "one"])
def test_c_of_a_qgemm_is_one_value_a_column_or_one_for_all(shape, scales):
    graph = _linear(
        "QGemm<alpha = 0.75>(xq, x_scale, x_zero, w, w_scale, w_zero, c, y_scale, y_zero)",
        w=random_integers(16, 8),
        w_scale=scales,
        w_zero=np.zeros(scales.shape, np.int8),
        c=random_integers(*shape, dtype=np.int16).astype(np.int32),
    )
    _assert_both_forms_are_onnx_runtimes(graph, ROWS, "Gemm")


@pytest.mark.parametrize(
    ("scales", "zeros"),
    [(SCALES, np.int8(5)), (np.float32(0.01), np.arange(-4, 4, dtype=np.int8))],
    ids=["several scales", "several zero points"],
)
def test_one_scale_or_zero_point_counts_for_every_column(scales, zeros):
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\n"
        "y = com.microsoft.MatMulIntegerToFloat(xq, w, x_scale, w_scale, x_zero, w_zero)",
        ROWS,
        w=random_integers(16, 8),
        w_scale=scales,
        w_zero=zeros,
    )
    found = verify_graph(graph, random_samples(ROWS), run=RunOptions(threads=1))
    assert found.equal, found.first
    assert {tensor.op for tensor in found.tensors} == {"QuantizeLinear", "MatMul"}


@pytest.mark.parametrize("opset", [11, 12])
@pytest.mark.parametrize("axis", [0, 1, -2, 3])
def test_the_opset_of_a_qlinear_softmax_says_how_many_axes_it_runs_along(axis, opset):
    graph = _linear(
        f"QLinearSoftmax<axis = {axis}, opset = {opset}>(xq, x_scale, x_zero, y_scale, y_zero)",
        (2, 3, 4, 5),
        **PROBABILITIES,
    )
    found = verify_graph(graph, random_samples((2, 3, 4, 5)), run=RunOptions(threads=1))
    assert found.equal, found.first
    assert {tensor.op for tensor in found.tensors} == {"QuantizeLinear", "Softmax"}


LEFT = {
    "a C of one value a row": (
        "QGemm(xq, x_scale, x_zero, w, w_scale, w_zero, c, y_scale, y_zero)",
        {"w": random_integers(16, 8), "c": np.arange(5, dtype=np.int32).reshape(5, 1)},
        "bias c does not have one value for each column",
    ),
    "a weight that is computed": (
        "QGemm(xq, x_scale, x_zero, xt, w_scale, x_zero, , y_scale, y_zero)",
        {},
        "weight xt is not constant",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_a_node_that_no_kernel_expresses_is_left_to_onnx_runtime_with_the_reason(name):
    node, constants, why = LEFT[name]
    shape = ROWS if constants else (5, 5)
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\nxt = Transpose(xq)\n"
        f"yq = com.microsoft.{node}\ny = DequantizeLinear(yq, y_scale, y_zero)",
        shape,
        **constants,
    )
    found = verify_graph(graph, random_samples(shape), run=RunOptions(threads=1))
    assert found.equal, found.first
    (fate,) = [fate for fate in list_node_statuses(graph) if fate.op.endswith("QGemm")]
    assert (fate.runs, fate.why) == ("float", f"must stay float: {why}")


def test_lint_goes_on_past_an_operator_without_a_float_form():
    graph = _linear(
        "QLinearGlobalAveragePool<channels_last = 1>(xq, x_scale, x_zero, y_scale, y_zero)",
        (1, 8, 8, 3),
    )
    (finding,) = lint_graph(graph)
    assert (finding.rule, finding.severity) == ("unspecified", "note")
