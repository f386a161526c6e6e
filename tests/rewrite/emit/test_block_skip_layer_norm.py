"""Sums before a LayerNormalization; the kernels that ONNX Runtime runs are the oracle."""

from __future__ import annotations

from networks import (
    build_network,
    find_disagreements,
    gaussian_array,
    optimized_kernels,
    quantize_network,
)

NODES = "h = Gemm(x, w, b)\ns = Add(h, x)\nn = LayerNormalization(s, g)\ny = Gemm(n, w, b)"
GIVEN = {"w": gaussian_array(16, 16), "b": gaussian_array(16), "g": gaussian_array(16, seed=2)}


def test_a_sum_before_a_layer_normalization_is_not_joined_with_it() -> None:
    done = quantize_network(build_network(NODES, {"x": (4, 16)}, **GIVEN))
    kernels = optimized_kernels(done.qdq)
    assert (kernels["Sum"], kernels["LayerNormalization"]) == (1, 1)
    assert kernels["SkipLayerNormalization"] == kernels["QLinearAdd"] == 0
    assert find_disagreements(done) == []


def test_other_sums_stay_as_they_are() -> None:
    nodes = NODES.replace("LayerNormalization(s, g)", "Erf(s)")
    done = quantize_network(build_network(nodes, {"x": (4, 16)}, w=GIVEN["w"], b=GIVEN["b"]))
    assert "Sum" not in {node.op_type for node in done.qdq.nodes if len(node.inputs) > 1}
