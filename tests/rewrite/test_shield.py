"""A float weight between quantizers: ONNX Runtime's optimized graph shows whether it was touched."""

from __future__ import annotations

import pytest
from networks import network, normal, optimized_kernels, quantized
from parts import CONV, SAME, WB, V

from ptq.graph import Graph
from ptq.rewrite.shield import shield_float_weights
from ptq.session import Session

NETWORKS = {
    "Conv": network(CONV + f"d = Conv{SAME}(c, v)\ny = Conv{SAME}(d, u)", v=V, u=V, **WB),
    "ConvTranspose": network(
        CONV + f"d = ConvTranspose{SAME}(c, v)\ny = Conv{SAME}(d, u)", v=V, u=V, **WB
    ),
    "Gemm": network(
        "c = Gemm(x, m)\nd = Gemm(c, n)\ny = Gemm(d, n)",
        {"x": (2, 16)},
        m=normal(16, 8),
        n=normal(8, 8),
    ),
    "MatMul": network(
        "c = MatMul(x, m)\nd = MatMul(c, n)\ny = MatMul(d, n)",
        {"x": (2, 5, 16)},
        m=normal(16, 8),
        n=normal(8, 8),
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
    done = quantized(NETWORKS[op], skip=[f"{op}_d"])
    shielded = optimized_kernels(done.qdq)
    touched = optimized_kernels(bare(done.qdq))
    assert shielded[op] + shielded[f"Fused{op}"] == 1
    if (
        op != "ConvTranspose"
    ):  # which has no integer kernel, but its weight is quantized all the same
        assert touched[op] + touched[f"Fused{op}"] == 0
    assert touched != shielded


def test_several_quantizers_behind_one_float_node_share_the_shield() -> None:
    model = network(
        CONV + f"d = Conv{SAME}(c, v)\ne = Conv{SAME}(d, v)\nf = Add(d, e)\ny = Neg(d)\n",
        None,
        ["f", "y"],
        v=V,
        **WB,
    )
    done = quantized(model, skip=["Conv_d"])
    kinds = [node.op_type for node in done.qdq.nodes]
    assert kinds.count("Sum") == 1
    kernels = optimized_kernels(done.qdq)
    assert kernels["QLinearConv"] == 2
    assert kernels["Conv"] == 1


def test_a_float_node_with_quantizers_on_one_side_needs_no_shield() -> None:
    done = quantized(NETWORKS["Conv"], skip=["Conv_c"])
    assert all(node.op_type != "Sum" for node in done.qdq.nodes)
    assert optimized_kernels(done.qdq)["Conv"] == 1


def test_a_shield_changes_no_value() -> None:
    done = quantized(NETWORKS["Conv"], skip=["Conv_d"])
    feed = done.feeds[0]
    with_shield = Session(done.qdq, optimize="none").run(feed)[0]
    without = Session(bare(done.qdq), optimize="none").run(feed)[0]
    assert with_shield.tobytes() == without.tobytes()


def test_shielding_twice_changes_nothing() -> None:
    done = quantized(NETWORKS["Conv"], skip=["Conv_d"])
    again = done.qdq.copy()
    shield_float_weights(again)
    assert again.to_bytes() == done.qdq.to_bytes()
