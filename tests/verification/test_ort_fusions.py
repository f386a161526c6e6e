"""Which tensors ONNX Runtime quantizes from float: its profile of one-layer models is known by construction."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers, random_samples
from networks import gaussian_array

from ptq.core.errors import ModelError
from ptq.core.run_options import RunOptions
from ptq.model.graph import Graph
from ptq.verification.ort_fusions import find_integer_products, find_tensors_from_float
from ptq.verification.ort_like_executor import build_ort_like_executor
from ptq.verification.verify import verify_graph

WD = "wd = DequantizeLinear(w, w_scale, w_zero)\n"
SIGNED = {"x_zero": np.int8(-8), "y_zero": np.int8(-20)}


def _exposed(graph: Graph) -> Graph:
    graph.add_outputs(["xq", "yq"])
    return graph


def test_a_fused_conv_is_not_among_them():
    graph = foreign_graph(
        INPUT_QDQ + WD + "r = Conv(xd, wd)" + OUTPUT_QDQ, w=random_integers(8, 3, 3, 3)
    )
    assert find_tensors_from_float(_exposed(graph)) == frozenset()


def test_an_operator_without_a_kernel_is():
    graph = foreign_graph(INPUT_QDQ + "r = HardSigmoid(xd)" + OUTPUT_QDQ)
    assert find_tensors_from_float(_exposed(graph)) == {"yq"}


def test_an_int8_conv_between_tensors_that_are_also_outputs_is():
    graph = foreign_graph(
        INPUT_QDQ + WD + "r = Conv(xd, wd)" + OUTPUT_QDQ, w=random_integers(8, 3, 3, 3), **SIGNED
    )
    assert find_tensors_from_float(_exposed(graph)) == {"yq"}


def test_a_change_of_scale_is_not():
    assert (
        find_tensors_from_float(
            _exposed(foreign_graph(INPUT_QDQ + "r = Identity(xd)" + OUTPUT_QDQ))
        )
        == frozenset()
    )


def test_a_model_that_onnx_runtime_does_not_take_is_an_error():
    proto = foreign_graph(INPUT_QDQ + "r = Relu(xd)" + OUTPUT_QDQ).to_proto()
    proto.graph.node[2].domain = "com.example"
    proto.opset_import.add(domain="com.example", version=1)
    with pytest.raises(ModelError, match=r"custom operator com.example::Relu"):
        find_tensors_from_float(Graph.from_proto(proto))


PRODUCTS = """
wd = DequantizeLinear<axis = 1>(w, w_scale, w_zero)
p = MatMul(xd, wd)
"""


@pytest.mark.parametrize(
    ("reader", "integer"),
    [
        ("r = Mul(p, b)", True),
        ("r = Add(p, b)", False),  # a Gemm by then
        ("s = Sigmoid(xd)\nr = Concat<axis = 1>(p, s)", False),  # two readers keep it int8
    ],
)
def test_a_product_with_float_output_is_compared_where_onnx_runtime_computes_it(reader, integer):
    signed = {"x_zero": np.int8(-8), "w": random_integers(8, 8), "b": gaussian_array(3, 8)}
    graph = foreign_graph(INPUT_QDQ + PRODUCTS + reader + "\ny = Relu(r)", (3, 8), **signed)
    assert ("p" in find_integer_products(graph)) == integer
    found = verify_graph(graph, random_samples((3, 8)), run=RunOptions(threads=1))
    assert found.equal, found.first
    assert ("p" in {tensor.tensor for tensor in found.tensors}) == integer
    following = build_ort_like_executor(graph)
    assert ("MatMul" in {op for ops in following.islands.values() for op in ops}) != integer
