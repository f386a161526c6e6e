"""Oracle: ONNX Runtime on the model as it was; numpy where it has no kernels of that type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array, sqnr_db
from old_runtime import skip_before
from onnx import TensorProto

from ptq.api.quantize import quantize
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.prepare.prepare import prepare

W, B = gaussian_array(4, 3, 3, 3, seed=1), gaussian_array(4, seed=2)


def convolved(dtype: type, kind: int) -> onnx.ModelProto:
    skip_before((1, 21), "reads no opset 22")
    lines = "c = Conv<kernel_shape = [3, 3]>(x, w, b)\ny = Relu(c)"
    weights = {"w": W.astype(dtype), "b": B.astype(dtype)}
    return build_network(lines, types={"x": kind, "y": kind}, opset=22, **weights)


@pytest.mark.parametrize(
    ("dtype", "kind"), [(np.float16, TensorProto.FLOAT16), (np.float64, TensorProto.DOUBLE)]
)
def test_a_model_in_another_precision_is_quantized_and_keeps_its_types(
    dtype: type, kind: int
) -> None:
    model = convolved(dtype, kind)
    data = gaussian_array(4, 1, 3, 8, 8).astype(dtype)
    result = quantize(model, {"x": data}, threads=1)
    assert "float" not in [row.fate for row in result.report.nodes if row.op == "Conv"]
    out = Session(result.graph).run({"x": data[0]})[0]
    assert out.dtype == dtype
    truth = np.maximum(_convolution(data[0].astype(np.float64)), 0)
    assert sqnr_db(truth, out.astype(np.float64)) > 35


def test_a_bfloat16_model_that_runtime_has_no_kernels_for_computes_in_float32() -> None:
    skip_before((1, 21), "reads no opset 22")
    lines = "a = Cast<to = 16>(x)\nc = Conv<kernel_shape = [3, 3]>(a, w, b)\ny = Cast<to = 1>(c)"
    weights = {"w": W.astype(ml_dtypes.bfloat16), "b": B.astype(ml_dtypes.bfloat16)}
    data = gaussian_array(4, 1, 3, 8, 8)
    result = quantize(build_network(lines, opset=22, **weights), {"x": data}, threads=1)
    assert result.plan.floats == {}
    out = Session(result.graph).run({"x": data[0]})[0]
    assert sqnr_db(_convolution(data[0].astype(np.float64)), out) > 35


def test_a_model_with_a_float16_branch_in_a_subgraph_stays_as_it_is() -> None:
    model = convolved(np.float16, TensorProto.FLOAT16)
    branch = onnx.parser.parse_graph(
        "g () => (float16[1] k) { k = Constant<value = float16[1] {1}>() }"
    )
    node = onnx.helper.make_node("If", ["flag"], ["z"], then_branch=branch, else_branch=branch)
    model.graph.node.append(node)
    model.graph.input.append(onnx.helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", TensorProto.FLOAT16, [1]))
    prepared = prepare(Graph.from_proto(model))
    assert "Cast" not in [n.op_type for n in prepared.graph.nodes]
    assert prepared.describe_changes()[-1] == (
        "cast to float32: not applied to 1 float16 product: "
        "the model has sub-graphs or operators outside the ONNX domain"
    )


def _convolution(x: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, W) + B[:, None, None]


def test_a_mask_with_the_lowest_float64_stays_finite() -> None:
    model = build_network(
        "a = MatMul(x, w)\ni = Sub(one, m)\nn = Mul(i, low)\nb = Add(a, n)\ny = Softmax(b)",
        {"x": (1, 16), "m": (1, 8)},
        types=dict.fromkeys("xmy", TensorProto.DOUBLE),
        w=gaussian_array(16, 8).astype(np.float64),
        one=np.float64(1),
        low=np.finfo(np.float64).min,
    )
    mask = np.float64([[1, 1, 1, 1, 1, 0, 0, 0]])
    feeds = [{"x": gaussian_array(1, 16, seed=i).astype(np.float64), "m": mask} for i in range(4)]
    result = quantize(model, feeds, threads=1)
    truth = Session(Graph.from_proto(model)).run(feeds[0])[0]
    assert sqnr_db(truth, Session(result.graph).run(feeds[0])[0]) > 25


def test_the_tensors_of_a_sequence_are_converted_too() -> None:
    model = build_network(
        "a = MatMul(x, w)\ns = SplitToSequence<axis = 1>(a)\ny = ConcatFromSequence<axis = 1>(s)",
        {"x": (1, 4)},
        types=dict.fromkeys("xy", TensorProto.FLOAT16),
        w=gaussian_array(4, 3).astype(np.float16),
    )
    x = gaussian_array(4, 1, 4).astype(np.float16)
    result = quantize(model, {"x": x}, threads=1)
    assert [row.fate for row in result.report.nodes if row.op == "MatMul"] == ["int8"]
    out = Session(result.graph).run({"x": x[0]})[0]
    assert out.dtype == np.float16
    assert sqnr_db(Session(Graph.from_proto(model)).run({"x": x[0]})[0], out) > 25


def test_a_model_with_a_sequence_among_its_outputs_stays_as_it_is() -> None:
    model = build_network(
        "a = MatMul(x, w)\ny = SplitToSequence<axis = 1>(a)",
        {"x": (1, 4)},
        types=dict.fromkeys("xy", TensorProto.FLOAT16),
        w=gaussian_array(4, 3).astype(np.float16),
    )
    half = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT16, None)
    model.graph.output[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(half))
    x = gaussian_array(1, 4).astype(np.float16)
    prepared = prepare(Graph.from_proto(model))
    assert prepared.describe_changes()[-1].endswith(
        "an input or output is a sequence, which no Cast takes"
    )
    [truth], [pieces] = (
        Session(g).run({"x": x}) for g in (Graph.from_proto(model), prepared.graph)
    )
    assert np.array_equal(np.stack(pieces), np.stack(truth))
