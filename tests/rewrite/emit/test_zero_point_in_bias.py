"""Zero points that move into biases on target ``openvino``; the oracle is the plan, and the form that keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.model.graph import Graph
from ptq.model.node import Node, get_constant, get_operator, list_consumers
from ptq.model.session.session import Session

X = gaussian_array(64, 6, 8, 8, seed=4)
TOKENS = gaussian_array(64, 12, 24, seed=5)
POINTWISE = "y = Conv(x, w, b)"
WEIGHTS = {"w": gaussian_array(5, 6, 1, 1, seed=1), "b": gaussian_array(5, seed=2)}


def quantize(text: str, x: Any = X, target: str = "openvino", **constants: Any) -> ptq.Result:
    model = build_network(text, {"x": ("N", *x.shape[1:])}, opset=20, **constants)
    return ptq.quantize(model, {"x": x}, target=target, effort="fast", force=True)


def activation_pairs(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Each QuantizeLinear with a DequantizeLinear that reads it."""
    for node in graph.nodes:
        if get_operator(node) == "QuantizeLinear":
            yield from ((node, reader) for reader in list_consumers(node.outputs[0]))


def zero_points(graph: Graph) -> list[tuple[int, int]]:
    found = []
    for pair in activation_pairs(graph):
        before, after = (get_constant(node.inputs[2]) for node in pair)
        assert before is not None
        assert after is not None
        found.append((int(before), int(after)))
    return found


@pytest.mark.parametrize(
    ("text", "x", "constants"),
    [
        (POINTWISE, X, WEIGHTS),
        ("y = Conv(x, w)", X, {"w": WEIGHTS["w"]}),
        ("y = Conv<group = 2>(x, w, b)", X, {"w": gaussian_array(4, 3, 1, 1), "b": gaussian_array(4)}),
        ("m = MatMul(x, w)\ny = Add(m, b)", TOKENS, {"w": gaussian_array(24, 7), "b": gaussian_array(7)}),
        ("y = Gemm<transB = 1>(x, w, b)", TOKENS[:, 0], {"w": gaussian_array(7, 24), "b": gaussian_array(7)}),
    ],
)  # fmt: skip
def test_the_outputs_are_those_of_the_form_with_zero_points(
    text: str, x: Any, constants: Any
) -> None:
    without, kept = (quantize(text, x, target, **constants) for target in ("openvino", "portable"))
    assert without.plan.tensors == kept.plan.tensors
    ((written, read),) = zero_points(without.graph)
    assert written > 0
    assert read == 0
    ours, theirs = (Session(r.graph).run({"x": x})[0] for r in (without, kept))
    np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("y = Conv<pads = [1, 1, 1, 1]>(x, w, b)", {"w": gaussian_array(5, 6, 3, 3)}),
        ("y = Conv(x, w, b)", {"w": gaussian_array(5, 6, 3, 3)}),  # slower without, measured
        ("y = Conv<pads = [1, 1, 1, 1]>(x, w, b)", {"w": gaussian_array(5, 6, 1, 1)}),
        ("u = Conv(x, v, b)\nz = Conv<pads = [1, 1, 1, 1]>(x, w, b)\ny = Concat<axis = 3>(u, z)",
         {"v": gaussian_array(5, 6, 1, 1), "w": gaussian_array(5, 6, 3, 3)}),
    ],
)  # fmt: skip
def test_other_convolutions_keep_their_zero_point(text: str, constants: Any) -> None:
    made = quantize(text, b=WEIGHTS["b"], **constants)
    assert all(written == read > 0 for written, read in zero_points(made.graph))


def test_integer_inputs_keep_scale_and_zero_point() -> None:
    text = POINTWISE
    model = build_network(text, {"x": ("N", *X.shape[1:])}, opset=20, **WEIGHTS)
    made, real = (
        ptq.quantize(model, {"x": X}, target="openvino", effort="fast", force=True, io=io)
        for io in ("int8", "float")
    )
    params = made.plan.tensors["x"]
    ours = Session(made.graph).run({"x": params.quantize(X)})[0]
    np.testing.assert_allclose(ours, Session(real.graph).run({"x": X})[0], atol=1e-5)


def test_openvino_computes_the_same() -> None:
    pytest.importorskip("openvino", reason="the extra openvino is not installed")
    from ptq.executor.runtimes.registry import open_in_runtime

    made = quantize(POINTWISE, **WEIGHTS)
    inside = open_in_runtime("openvino", made.graph, threads=1)
    wanted = Session(made.graph).run({"x": X})[0]
    # a value between two integers may become the other one: 10 of 20,480 outputs then differ, by one step
    differing = ~np.isclose(inside.run({"x": X})[0], wanted, atol=1e-4)
    assert differing.mean() < 0.002
    assert all(place.intended for place in inside.placement())
