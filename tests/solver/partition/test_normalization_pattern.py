"""Which nodes are pieces of a normalization; the formulas are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.core.targets import TARGETS
from ptq.model.graph import Graph
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.partition.eligibility import assign_precision
from ptq.solver.partition.normalization_pattern import find_normalization_nodes

LAYER = """
a = ReduceSum<keepdims=0>(x, last)
m = Mul(a, n)
q = Mul(x, x)
b = ReduceSum<keepdims=0>(q, last)
s = Mul(b, n)
t = Mul(m, m)
v = Sub(s, t)
p = Max(v, zero)
e = Add(p, eps)
r = Sqrt(e)
i = Reciprocal(r)
j = Unsqueeze(i, last)
k = Mul(j, g)
l = Unsqueeze(m, last)
c = Sub(x, l)
d = Mul(c, k)
h = Add(d, g)
"""
RMS = """
q = Pow(x, two)
m = ReduceMean<axes=[1]>(q)
e = Add(m, eps)
r = Sqrt(e)
d = Div(x, r)
h = Mul(d, g)
"""
POWER = RMS.replace("r = Sqrt(e)\nd = Div(x, r)", "r = Pow(e, half)\nd = Mul(x, r)")
POOLED = RMS.replace("ReduceMean<axes=[1]>", "GlobalAveragePool")
UNIT = """
r = ReduceL2<axes=[-1]>(x)
e = Clip(r, eps)
d = Div(x, e)
h = Mul(d, g)
"""
CONSTANTS = {
    "n": np.float32(1 / 8),
    "zero": np.float32(0),
    "eps": np.float32(1e-6),
    "two": np.float32(2),
    "half": np.float32(-0.5),
    "last": np.array([-1]),
    "g": gaussian_array(8),
    "w": gaussian_array(8, 8, seed=1),
}


def pieces(nodes: str) -> tuple[Graph, set[str]]:
    """The outputs of the nodes that are pieces of a normalization."""
    used = {name: value for name, value in CONSTANTS.items() if f"{name})" in nodes}
    used |= {name: value for name, value in CONSTANTS.items() if f"({name}," in nodes}
    graph = prepare(Graph.from_proto(build_network(nodes, {"x": (2, 4, 8)}, **used))).graph
    names = find_normalization_nodes(graph)
    return graph, {n.outputs[0].name or "" for n in graph.nodes if n.name in names}


@pytest.mark.parametrize(
    "target", ["ort", "litert", "litert-xnnpack", "litert-a16", "gemmlowp", "ort-xnnpack"]
)
@pytest.mark.parametrize("body", [LAYER, RMS, POWER, POOLED, UNIT])
def test_a_normalization_in_pieces_stays_float_and_its_product_does_not(
    body: str, target: str
) -> None:
    graph, found = pieces(body + "o = Mul(h, h)\ny = MatMul(o, w)")
    computed = {line.split(" = ")[0] for line in body.split("\n") if line}
    assert found == computed & {v.name for node in graph.nodes for v in node.outputs}
    assert {"d", "h"} < found
    fate = assign_precision(graph, TARGETS[target])
    assert all(f"{name}" not in "".join(fate.quantized_nodes) for name in ("Sqrt", "Reduce"))
    assert any(name.startswith(("MatMul", "Gemm")) for name in fate.quantized_nodes)


@pytest.mark.parametrize(
    "body",
    [
        "m = ReduceMean<axes=[-1]>(x)\ny = Mul(x, m)",
        "e = Mul(x, x)\ny = Sqrt(e)",
        "e = MatMul(x, w)\nm = ReduceMean<axes=[-1]>(e)\nd = Sub(x, m)\ny = Mul(d, d)",
    ],
    ids=["a gate", "a root of no sum", "a mean of no root"],
)
def test_what_has_no_root_of_a_sum_is_no_normalization(body: str) -> None:
    assert pieces(body)[1] == set()


def test_what_others_read_too_is_left_alone() -> None:
    nodes = "q = Mul(x, x)\nm = ReduceMean<axes=[-1]>(q)\nr = Sqrt(m)\nd = Div(x, r)\ny = Add(d, q)"
    assert pieces(nodes)[1] == {"m", "r", "d"}


def test_a_statistic_and_its_root_may_be_far_apart() -> None:
    steps = [f"s{i + 1} = Add(s{i}, eps)" for i in range(1100)]
    nodes = ["s0 = ReduceMean(x)", *steps, "r = Sqrt(s1100)", "y = Div(x, r)"]
    model = build_network("\n".join(nodes), {"x": (2, 4, 8)}, eps=CONSTANTS["eps"])
    assert len(find_normalization_nodes(Graph.from_proto(model))) == len(nodes)
