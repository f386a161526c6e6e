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
    from ptq.rewrite.prepare.prepare import prepare

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
