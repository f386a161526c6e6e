"""PRelus in pieces; ONNX Runtime's own PRelu on the same numbers and its kernels are the oracles."""

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

from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.emit.decompose_prelu import decompose_float_prelu

SIDE = 64
LARGE = {"x": (1, 3, SIDE, SIDE)}


@pytest.mark.parametrize("opset", [10, 17])
@pytest.mark.parametrize("shape", [(3, 1, 1), (3, SIDE, SIDE), (1,)])
def test_the_pieces_compute_the_same_bits(shape: tuple[int, ...], opset: int) -> None:
    model = build_network("y = PRelu(x, s)", LARGE, opset=opset, s=gaussian_array(*shape))
    graph = Graph.from_proto(model)
    decompose_float_prelu(graph, [node.name or "" for node in graph.nodes])
    assert [node.op_type for node in graph.nodes] == ["Relu", "Clip", "Mul", "Add"]
    feed = {"x": gaussian_array(1, 3, SIDE, SIDE, seed=4)}
    feed["x"][0, 0, 0, :6] = 0.0, -0.0, -np.float32(1e-42), np.inf, -np.inf, np.nan
    one, other = (Session(g, threads=1).run(feed)[0] for g in (Graph.from_proto(model), graph))
    np.testing.assert_array_equal(other, one)


def test_one_between_convolutions_is_written_so_for_onnx_runtime_alone() -> None:
    nodes = "c = Conv(x, w)\np = PRelu(c, s)\ny = Conv(p, v)"
    model = build_network(
        nodes,
        LARGE,
        w=gaussian_array(4, 3, 3, 3),
        v=gaussian_array(2, 4, 3, 3),
        s=gaussian_array(4, 1, 1),
    )
    done = quantize_network(model)
    assert optimized_kernels(done.qdq)["PRelu"] == 0
    assert find_disagreements(done) == []
    litert = quantize_network(model, target="litert")
    assert "PRelu" in {node.op_type for node in litert.qdq.nodes}


def test_a_small_one_stays_one_node() -> None:
    graph = Graph.from_proto(build_network("y = PRelu(x, s)", s=gaussian_array(3, 1, 1)))
    decompose_float_prelu(graph, [node.name or "" for node in graph.nodes])
    assert [node.op_type for node in graph.nodes] == ["PRelu"]


def test_one_of_unknown_type_stays_one_node() -> None:
    model = build_network("p = PRelu(x, s)\ny = Relu(p)", LARGE, s=gaussian_array(3, 1, 1))
    graph = Graph.from_proto(model)
    decompose_float_prelu(graph, [node.name or "" for node in graph.nodes])
    assert [node.op_type for node in graph.nodes] == ["PRelu", "Relu"]
