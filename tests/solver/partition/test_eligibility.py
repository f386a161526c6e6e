"""What will be quantized and what stays float; ONNX Runtime's and LiteRT's lists of operators are the oracles."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from cases import CASES, quantized_case
from networks import build_network, gaussian_array, optimized_kernels, quantize_network
from onnx import TensorProto
from parts import CONV, ROW, SAME, WB, V, W, conv_network

from ptq.core.ops import OPS
from ptq.core.targets import TARGETS
from ptq.model.graph import Graph
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.partition.eligibility import assign_precision


def float_reasons(model: onnx.ModelProto, target: str = "ort", **more: object) -> dict[str, str]:
    """Reasons by operator of the nodes that stay float."""
    graph = prepare(Graph.from_proto(model)).graph
    fate = assign_precision(graph, TARGETS[target], **more)  # type: ignore[arg-type]
    assert set(fate.quantized_nodes).isdisjoint(fate.float_nodes)
    assert [n.name for n in graph.nodes if n.name in fate.quantized_nodes] == list(
        fate.quantized_nodes
    )
    assert len(fate.quantized_nodes) + len(fate.float_nodes) == len(graph.nodes)
    ops = {node.name: node.op_type for node in graph.nodes}
    return {ops[name]: why for name, why in fate.float_nodes.items()}


@pytest.mark.parametrize(
    ("name", "op", "reason"),
    [
        ("conv of a computed weight", "Conv", "weight a is not constant"),
        ("clip bounds from an input", "Clip", "value lo is not constant"),
        ("pad by reflection", "Pad", "mode reflect"),
        ("sub", "Sub", "no integer kernel for Sub"),
        ("cubic", "Resize", "operator Resize cubic is not supported"),
        ("movers alone", "MaxPool", "neighbours are float"),
        ("if capturing", "If", "operator If is not supported"),
        ("gather by an input", "Gather", "has no activation input"),
    ],
)
def test_a_node_that_stays_float_says_why(name: str, op: str, reason: str) -> None:
    assert reason in quantized_case(name).float_reasons()[op]


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_a_model_of_another_precision_is_quantized_between_casts(dtype: int) -> None:
    element = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    model = build_network(
        "c = Conv(x, w)\ny = Relu(c)", types={"x": dtype, "y": dtype}, w=W.astype(element)
    )
    assert set(float_reasons(model)) == {"Cast"}


def test_max_pool_with_indices_that_are_read_stays_float() -> None:
    model = build_network(
        CONV + "p, i = MaxPool<kernel_shape=[2,2]>(c)\ny = Relu(p)",
        None,
        ["y", "i"],
        types={"i": TensorProto.INT64},
        **WB,
    )
    assert float_reasons(model)["MaxPool"] == "MaxPool with indices has no integer kernel"


def test_average_pool_that_counts_its_padding_stays_float_for_litert_alone() -> None:
    model = CASES["average pool padded"]
    assert (
        float_reasons(model, "litert")["AveragePool"]
        == "LiteRT's AVERAGE_POOL_2D does not count padding"
    )
    assert "AveragePool" not in float_reasons(model)


@pytest.mark.parametrize("key", ["Conv_c", "Conv"])
def test_a_skipped_node_gives_the_reason_it_was_skipped_for(key: str) -> None:
    assert float_reasons(CASES["sigmoid"], skip={key: "by wish"})["Conv"] == "by wish"


def test_an_activation_goes_with_its_producer() -> None:
    for target in [name for name, row in TARGETS.items() if row.has_lookup_tables or row.costs]:
        found = float_reasons(CASES["residual"], target, skip={"Conv_c": "by wish"})
        reason = "follows Conv_c" if TARGETS[target].has_lookup_tables else "neighbours are float"
        assert found["Relu"].startswith(reason)


def test_a_tensor_that_was_refused_leaves_all_its_nodes_float() -> None:
    found = float_reasons(CASES["sigmoid"], refused={"c": "c held NaN"})
    assert found == {"Conv": "c held NaN", "Sigmoid": "c held NaN"}


def test_weights_with_nan_or_without_elements_stay_float() -> None:
    broken = W.copy()
    broken[0, 0, 0, 0] = np.nan
    assert (
        float_reasons(build_network("y = Conv(x, w)", w=broken))["Conv"]
        == "weight w holds NaN or Inf"
    )
    empty = build_network("y = MatMul(x, m)", {"x": (2, 3)}, m=np.zeros((3, 0), np.float32))
    assert float_reasons(empty)["MatMul"] == "weight m is empty"


def test_movers_between_two_float_nodes_stay_float_for_onnx_runtime() -> None:
    model = build_network("a = Sin(x)\nt = Transpose<perm=[0,2,3,1]>(a)\ny = Sin(t)")
    assert "Transpose" in float_reasons(model)


def test_movers_that_a_chain_joins_to_an_integer_node_are_integer() -> None:
    model = conv_network("t = Transpose<perm=[0,2,3,1]>(c)\nf = Flatten(t)\ny = Sin(f)")
    assert list(float_reasons(model)) == ["Sin"]


def test_an_activation_fuses_where_nobody_else_reads_what_comes_before() -> None:
    def fused(nodes: str, outputs: tuple[str, ...] = ("y",)) -> dict[str, str]:
        graph = prepare(
            Graph.from_proto(build_network(CONV + nodes, None, outputs, v=V, **WB))
        ).graph
        return dict(assign_precision(graph, TARGETS["ort"]).fused_activations)

    assert fused("y = Relu(c)") == {"Relu_y": "Conv_c"}
    assert fused("y = Relu(c)", ("y", "c")) == {}
    assert fused("r = Relu(c)\ny = Add(r, c)") == {}
    assert fused("p = MaxPool<kernel_shape=[2,2]>(c)\ny = Relu(p)") == {}
    assert fused("s = Sigmoid(c)\ny = Relu(s)") == {}


def test_a_gemm_bias_of_one_row_is_one_value_a_channel() -> None:
    model = build_network("y = Gemm(x, m, k)", ROW, m=gaussian_array(16, 8), k=gaussian_array(1, 8))
    assert float_reasons(model) == {}


@pytest.mark.parametrize("op", ["Conv", "Gemm", "MatMul", "Add", "Mul", "Concat", "Sigmoid"])
def test_what_the_table_calls_integer_runs_in_integers_in_onnx_runtime(op: str) -> None:
    nodes = {
        "Conv": f"y = Conv{SAME}(c, v)",
        "Gemm": "f = Flatten(c)\ng = Gemm(f, m)\ny = Relu(g)",
        "MatMul": "p = MatMul(c, n)\ny = Relu(p)",
        "Concat": "y = Concat<axis=1>(c, c)",
        "Sigmoid": "y = Sigmoid(c)",
    }.get(op, f"y = {op}(c, c)")
    model = conv_network(nodes, v=V, m=gaussian_array(512, 4), n=gaussian_array(8, 8))
    kernels = optimized_kernels(quantize_network(model).qdq)
    form = OPS[op].qlinear
    assert form is not None
    assert kernels[form.op.rpartition("::")[2]] == 1 + (op == "Conv")


def test_a_node_that_never_has_values_stays_float() -> None:
    assert float_reasons(build_network("y = ReduceMax<axes=[1]>(x)", {"x": (2, 0, 3)})) == {
        "ReduceMax": "activation x is empty"
    }


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("target", [n for n, row in TARGETS.items() if row.integer_ops is None])
def test_a_node_with_an_attribute_that_is_no_number_stays_float(target: str, number: float) -> None:
    model = build_network(f"{CONV}y = LeakyRelu<alpha=0.1>(c)", **WB)
    model.graph.node[-1].attribute[0].f = number
    assert float_reasons(model, target)["LeakyRelu"] == f"its alpha is {number}"
