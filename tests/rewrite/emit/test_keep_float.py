"""A float weight between quantizers: ONNX Runtime's optimized graph shows whether it was touched."""

from __future__ import annotations

import numpy as np
import pytest
from networks import (
    build_network,
    find_disagreements,
    gaussian_array,
    optimized_kernels,
    quantize_network,
)
from old_runtime import skip_before
from parts import CONV, SAME, WB, V

from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.emit.keep_float import prevent_ort_quantization

NETWORKS = {
    "Conv": build_network(CONV + f"d = Conv{SAME}(c, v)\ny = Conv{SAME}(d, u)", v=V, u=V, **WB),
    "ConvTranspose": build_network(
        CONV + f"d = ConvTranspose{SAME}(c, v)\ny = Conv{SAME}(d, u)", v=V, u=V, **WB
    ),
    "Gemm": build_network(
        "c = Gemm(x, m)\nr = Relu(c)\nd = Gemm(r, n)\ny = Gemm(d, n)",
        {"x": (2, 16)},
        m=gaussian_array(16, 8),
        n=gaussian_array(8, 8),
    ),
    "MatMul": build_network(
        "c = MatMul(x, m)\nd = MatMul(c, n)\ny = MatMul(d, n)",
        {"x": (2, 5, 16)},
        m=gaussian_array(16, 8),
        n=gaussian_array(8, 8),
    ),
}


def bare(graph: Graph) -> Graph:
    """The graph without its shields."""
    unshielded = graph.copy()
    for node in unshielded.nodes:
        if node.op_type == "Sum":
            unshielded.substitute(node.outputs[0], node.inputs[0])
            unshielded.remove(node)
    return unshielded


@pytest.mark.parametrize("op", NETWORKS)
def test_without_a_shield_onnx_runtime_quantizes_the_float_weight_by_itself(op: str) -> None:
    if op != "MatMul":
        skip_before((1, 22), "leaves float weights alone")
    done = quantize_network(NETWORKS[op], skip=[f"{op}_d"])
    shielded = optimized_kernels(done.qdq)
    touched = optimized_kernels(bare(done.qdq))
    assert shielded[op] + shielded[f"Fused{op}"] == 1
    if op == "ConvTranspose":  # no integer kernel, but its weight is quantized all the same
        assert touched["DequantizeLinear"] > shielded["DequantizeLinear"]
    elif op != "MatMul":  # which is spared
        assert touched[op] + touched[f"Fused{op}"] == 0


def test_several_quantizers_behind_one_float_node_share_the_shield() -> None:
    model = build_network(
        CONV + f"d = Conv{SAME}(c, v)\ne = Conv{SAME}(d, v)\nf = Add(d, e)\ny = Neg(d)\n",
        None,
        ["f", "y"],
        v=V,
        **WB,
    )
    done = quantize_network(model, skip=["Conv_d"])
    kinds = [node.op_type for node in done.qdq.nodes]
    assert kinds.count("Sum") == 1
    kernels = optimized_kernels(done.qdq)
    assert kernels["QLinearConv"] == 2
    assert kernels["Conv"] == 1


def test_a_float_node_with_quantizers_on_one_side_needs_no_shield() -> None:
    done = quantize_network(NETWORKS["Conv"], skip=["Conv_c"])
    assert all(node.op_type != "Sum" for node in done.qdq.nodes)
    assert optimized_kernels(done.qdq)["Conv"] == 1


def test_a_shield_changes_no_value() -> None:
    done = quantize_network(NETWORKS["Conv"], skip=["Conv_d"])
    feed = done.feeds[0]
    with_shield = Session(done.qdq, optimize="none").run(feed)[0]
    without = Session(bare(done.qdq), optimize="none").run(feed)[0]
    assert with_shield.tobytes() == without.tobytes()


def test_shielding_twice_changes_nothing() -> None:
    done = quantize_network(NETWORKS["Conv"], skip=["Conv_d"])
    again = done.qdq.copy()
    prevent_ort_quantization(again, done.plan.floats, ())
    assert again.to_bytes() == done.qdq.to_bytes()


BETWEEN = {
    "Relu": (f"d = Conv{SAME}(c, v)\nr = Relu(d)\ny = Conv{SAME}(r, v)", ["Conv_d"]),
    "Clip": (f"d = Conv{SAME}(c, v)\nr = Clip(d, lo)\ny = Conv{SAME}(r, v)", ["Conv_d"]),
    "Transpose after": (
        f"d = Conv{SAME}(c, v)\nr = Transpose<perm=[0,1,3,2]>(d)\ny = Conv{SAME}(r, v)",
        ["Conv_d", "Transpose"],
    ),
    "Transpose before": (
        f"t = Transpose<perm=[0,1,3,2]>(c)\nd = Conv{SAME}(t, v)\ny = Conv{SAME}(d, v)",
        ["Conv_d", "Transpose"],
    ),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_nothing_that_onnx_runtime_looks_past_uncovers_the_float_weight(between: str) -> None:
    nodes, skip = BETWEEN[between]
    done = quantize_network(build_network(CONV + nodes, v=V, lo=np.float32(0), **WB), skip=skip)
    kernels = optimized_kernels(done.qdq)
    assert kernels["QLinearConv"] == 2
    assert kernels["Conv"] + kernels["FusedConv"] == 1
    assert kernels["DequantizeLinear"] == 2  # before the float convolution, and at the output


@pytest.mark.parametrize(
    ("op", "nodes"),
    [
        ("Add", "d = Add(c, e)"),
        ("Mul", "d = Mul(c, e)"),
        ("Concat", "d = Concat<axis=1>(c, e)"),
        ("MatMul", "d = MatMul(c, e)"),
        ("Sigmoid", "d = Sigmoid(c)"),
        ("LeakyRelu", "d = LeakyRelu(c)"),
        ("Softmax", "d = Softmax(c)"),
        ("AveragePool", "d = AveragePool<kernel_shape=[2,2]>(c)"),
        ("GlobalAveragePool", "d = GlobalAveragePool(c)"),
    ],
)
def test_an_operator_without_weights_that_is_left_float_stays_float(op: str, nodes: str) -> None:
    model = build_network(
        CONV + f"e = Conv{SAME}(x, w)\n{nodes}\ny = Conv(d, u)",
        u=gaussian_array(4, 16 if op == "Concat" else 8, 1, 1),
        **WB,
    )
    done = quantize_network(model, skip=[op])
    kernels = optimized_kernels(done.qdq)
    assert kernels[op] == 1
    assert not any(name.startswith("QLinear") and name.endswith(op) for name in kernels)
    assert find_disagreements(done) == []
