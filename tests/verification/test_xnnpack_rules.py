"""Which nodes ONNX Runtime's XNNPACK provider takes, and each reason why it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers
from networks import build_network, gaussian_array, quantize_network

from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.verification.lint import lint_graph
from ptq.verification.xnnpack_rules import explain_xnnpack_placement

SIGNED = {"x_zero": np.int8(-3), "y_zero": np.int8(4)}
LAYER = (
    INPUT_QDQ
    + "wd = DequantizeLinear<axis = 0>(w, w_scale, w_zero)\nbd = DequantizeLinear<axis = 0>(b, b_scale)\n"
    + "r = Conv(xd, wd, bd)"
    + OUTPUT_QDQ
)
BY_CHANNEL = {"w_scale": np.full(8, 0.01, np.float32), "w_zero": np.zeros(8, np.int8)}


def _reasons(nodes: str = LAYER, shape: Any = (1, 3, 8, 8), **changed: Any) -> list[str]:
    constants = {
        "w": random_integers(8, 3, 3, 3),
        "b": np.arange(8, dtype=np.int32),
        "b_scale": np.full(8, 0.0003, np.float32),
        **SIGNED,
        **BY_CHANNEL,
        **changed,
    }
    return [reason for _, reason in explain_xnnpack_placement(_graph(nodes, shape, constants))]


def _graph(nodes: str, shape: Any, constants: dict[str, Any]) -> Graph:
    return foreign_graph(nodes, shape, **constants)


def _pool(op: str) -> str:
    return INPUT_QDQ + f"r = {op}(xd)" + OUTPUT_QDQ


SAME_SCALES = {"y_scale": np.float32(0.03), "y_zero": np.int8(-3)}
UNSIGNED = {"x_zero": np.uint8(3), "y_zero": np.uint8(0)}
TAKEN: list[tuple[str, dict[str, Any]]] = [
    (LAYER, {}),
    (LAYER, {"w_scale": np.float32(0.01), "w_zero": np.int8(0)}),
    (
        LAYER,
        UNSIGNED
        | {
            "w": random_integers(8, 3, 3, 3, dtype=np.uint8),
            "w_scale": np.float32(0.01),
            "w_zero": np.uint8(7),
        },
    ),
    (_pool("MaxPool<kernel_shape = [2, 2]>"), SAME_SCALES),
    (_pool("Softmax"), UNSIGNED | {"y_scale": np.float32(1 / 256)}),
    (_pool("AveragePool<kernel_shape = [2, 2], count_include_pad = 1>"), UNSIGNED),
]
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    (LAYER, "uint8 activations with int8 weights", UNSIGNED),
    (LAYER.replace("bd)", "b)"), "the bias is float", {"b": gaussian_array(8)}),
    (
        LAYER,
        "uint8 weights have scales by channel",
        UNSIGNED
        | {"w": random_integers(8, 3, 3, 3, dtype=np.uint8), "w_zero": np.zeros(8, np.uint8)},
    ),
    (LAYER, "channels, height or width have no fixed size", {"shape": (1, 3, "h", 8)}),
    (
        LAYER.replace("Conv(", "Conv<group = 2>("),
        "2 groups",
        {"w": random_integers(8, 2, 3, 3), "shape": (1, 4, 8, 8)},
    ),
    (_pool("AveragePool<kernel_shape = [2, 2]>"), "average pools of int8", {}),
    (_pool("AveragePool<kernel_shape = [2, 2]>"), "padding is not counted", UNSIGNED),
    (_pool("MaxPool<kernel_shape = [2, 2]>"), "input and output have different scales", {}),
    (_pool("MaxPool<kernel_shape = [2, 2], ceil_mode = 1>"), "sizes are rounded up", SAME_SCALES),
    (_pool("Softmax"), "Softmax of int8", {}),
    (_pool("Softmax"), "the output's scale is not 1/256", UNSIGNED),
    (_pool("Tanh"), "it has no integer kernel for Tanh", {}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "changed"), TAKEN)
def test_these_nodes_are_taken(nodes: str, changed: dict[str, Any]) -> None:
    assert _reasons(nodes, **changed) == [""]


@pytest.mark.parametrize(("nodes", "reason", "changed"), REFUSED)
def test_every_reason_is_named(nodes: str, reason: str, changed: dict[str, Any]) -> None:
    (found,) = _reasons(nodes, **changed)
    assert found.startswith(reason)


MODEL = build_network(
    "c = Conv<pads = [1, 1, 1, 1]>(x, u, b)\nr = Relu(c)\nm = MaxPool<kernel_shape = [2, 2]>(r)\n"
    "d = Conv(m, v)\ny = Tanh(d)",
    u=gaussian_array(8, 3, 3, 3),
    b=gaussian_array(8),
    v=gaussian_array(8, 8, 3, 3),
)


def test_the_target_writes_convolutions_that_are_taken() -> None:
    done = quantize_network(MODEL, target="ort-xnnpack")
    found = {get_operator(node): reason for node, reason in explain_xnnpack_placement(done.qdq)}
    assert found.pop("Tanh").startswith("it has no integer kernel")
    assert found == {"Conv": "", "MaxPool": ""}
    (finding,) = lint_graph(done.qdq, "ort-xnnpack")
    assert (finding.severity, finding.rule) == ("note", "placement")


def test_files_for_the_processor_of_a_computer_are_an_error() -> None:
    findings = lint_graph(quantize_network(MODEL).qdq, "ort-xnnpack")
    assert {f.rule for f in findings if f.severity == "error"} == {"types"}
