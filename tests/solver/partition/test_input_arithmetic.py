"""Arithmetic of inputs with constants stays float in ONNX Runtime; which nodes those are, the graphs show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from networks import build_network, gaussian_array, quantize_network
from onnx import ModelProto

from ptq.core.targets import TARGETS
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.solver.partition.input_arithmetic import find_input_arithmetic

NORMALIZE = "p = Transpose<perm = [0, 3, 1, 2]>(x)\nm = Sub(p, mean)\nd = Mul(m, factor)\n"
BODY = "c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(d, w)\nr = Relu(c)\ny = Conv(r, v)"


def network(nodes: str = NORMALIZE + BODY) -> ModelProto:
    return build_network(
        nodes,
        {"x": (1, 32, 32, 3)},
        mean=gaussian_array(1, 3, 1, 1),
        factor=gaussian_array(1, 3, 1, 1, seed=1),
        w=gaussian_array(32, 3, 3, 3),
        v=gaussian_array(32, 32, 3, 3),
    )


def test_the_mean_and_the_deviation_of_pixels_stay_float() -> None:
    floats = quantize_network(network()).plan.floats
    assert {"Sub_m", "Mul_d"} <= floats.keys()
    assert not {"Conv_c", "Conv_y"} & floats.keys()


def test_an_activation_behind_them_is_part_of_no_integer_node() -> None:
    nodes = NORMALIZE.replace("d = Mul", "e = Mul") + "d = Relu(e)\n" + BODY
    result = quantize_network(network(nodes))
    assert "Mul_e" in result.plan.floats
    assert "Relu_d" not in result.plan.folded


def test_they_become_integers_where_the_input_will_be_integers() -> None:
    row = replace(TARGETS["ort"], integer_border=True)
    assert "Mul_d" not in quantize_network(network(), target=row).plan.floats


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        (NORMALIZE, {"m", "d"}),
        (NORMALIZE.replace("mean", "x"), set()),
        (NORMALIZE + "z = Add(m, d)", {"m"}),
        ("d = Relu(x)\ns = Conv(d, w)\nz = Mul(s, factor)", set()),
    ],
    ids=["a chain", "of two tensors", "read by others", "behind a layer"],
)
def test_only_chains_of_constants_at_inputs_count(nodes: str, found: set[str]) -> None:
    outputs = [nodes.rsplit("\n", 1)[-1][0]] if not nodes.endswith("\n") else ["d"]
    given = {"mean": gaussian_array(1, 3, 1, 1), "factor": gaussian_array(1, 3, 1, 1)}
    model = build_network(
        nodes, {"x": (1, 3, 3, 3)}, outputs=outputs, w=gaussian_array(3, 3, 1, 1), **given
    )
    graph = Graph.from_proto(model)
    names = find_input_arithmetic(graph)
    assert {get_name(n.outputs[0]) for n in graph.nodes if n.name in names} == found
