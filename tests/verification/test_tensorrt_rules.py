"""TensorRT's rules, each broken once in a model that keeps the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers
from networks import build_network, gaussian_array, quantize_network

from ptq.model.graph import Graph
from ptq.verification.lint import lint_graph

SIGNED = {"x_zero": np.int8(0), "y_zero": np.int8(0), "w_zero": np.int8(0)}
LAYER = INPUT_QDQ + "wd = DequantizeLinear(w, w_scale, w_zero)\ny = Conv(xd, wd, b)"


def _layer(nodes: str = LAYER, opset: int = 17, **changed: Any) -> Graph:
    """A Conv between int8 quantizers with a float bias, but for what is changed."""
    constants = {"w": random_integers(8, 3, 3, 3), "b": gaussian_array(8), **SIGNED, **changed}
    return foreign_graph(nodes, opset=opset, **constants)


def _found(graph: Graph) -> list[tuple[str, str]]:
    return [(finding.severity, finding.rule) for finding in lint_graph(graph, "tensorrt")]


def test_a_layer_that_keeps_the_rules_has_no_finding() -> None:
    assert _found(_layer()) == []


def test_an_int32_bias_is_an_error_that_says_what_to_do() -> None:
    graph = _layer(
        LAYER.replace("wd, b)", "wd, bd)")
        .replace("wd = ", "bd = DequantizeLinear(b, b_scale)\nwd = "),
        b=np.ones(8, np.int32),
        b_scale=np.float32(0.01),
    )  # fmt: skip
    (finding,) = lint_graph(graph, "tensorrt")
    assert (finding.severity, finding.rule) == ("error", "type")
    assert finding.text == "a bias of int32 is not imported; leave biases float"


def test_uint8_activations_are_errors() -> None:
    assert ("error", "type") in _found(_layer(x_zero=np.uint8(0)))


def test_a_zero_point_that_is_not_zero_is_an_error() -> None:
    (first, second) = lint_graph(_layer(x_zero=np.int8(-5)), "tensorrt")
    assert first.rule == second.rule == "zero-point"
    assert first.text == "zero point -5; it must be 0"


def test_an_activation_with_scales_by_channel_is_an_error() -> None:
    graph = _layer(x_scale=np.full(3, 0.1, np.float32), x_zero=np.zeros(3, np.int8))
    assert _found(graph) == [("error", "per-channel")] * 2


def test_weights_with_scales_along_another_axis_are_an_error() -> None:
    scales = {"w_scale": np.full(3, 0.1, np.float32), "w_zero": np.zeros(3, np.int8)}
    assert _found(_layer(**scales)) == [("error", "per-channel")]


def test_scales_by_channel_need_opset_13() -> None:
    model = build_network(
        "y = Conv(x, w)", w=gaussian_array(8, 3, 3, 3), opset=12
    )  # fmt: skip
    done = quantize_network(model, target="tensorrt")
    done.qdq.model.opset_imports[""] = 12
    assert ("error", "opset") in _found(done.qdq)


def test_a_scale_that_is_computed_is_an_error() -> None:
    graph = _layer("s = ReduceMax<keepdims = 0>(x)\n" + LAYER.replace("x_scale", "s"))
    assert _found(graph) == [("error", "scale")] * 2


@pytest.mark.parametrize("op", ["Relu", "Tanh", "HardSwish"])
def test_a_quantizer_between_a_convolution_and_its_activation_is_noted(op: str) -> None:
    nodes = LAYER.replace("\ny = ", "\nr = ") + OUTPUT_QDQ.replace("y = ", "z = ") + f"y = {op}(z)"
    assert _found(_layer(nodes)) == [("note", "before-activation")]


def test_a_sum_with_two_quantized_inputs_is_noted() -> None:
    nodes = (
        LAYER.replace("\ny = ", "\nr = ")
        + OUTPUT_QDQ.replace("y = ", "z = ")
        + "t = Tanh(r)\ntq = QuantizeLinear(t, y_scale, y_zero)\ntd = DequantizeLinear(tq, y_scale, y_zero)\n"
        + "y = Add(z, td)"
    )
    assert _found(_layer(nodes)) == [("note", "residual")]


def test_a_quantized_output_is_noted() -> None:
    nodes = LAYER.replace("\ny = ", "\nr = ") + OUTPUT_QDQ
    assert _found(_layer(nodes)) == [("note", "quantized-output")]


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_files_for_other_targets_break_the_rules(target: str) -> None:
    model = build_network(
        "c = Conv(x, w, b)\ny = Relu(c)", w=gaussian_array(8, 3, 3, 3), b=gaussian_array(8)
    )
    found = _found(quantize_network(model, target=target).qdq)
    assert ("error", "type") in found


def test_integer_operators_are_errors() -> None:
    model = build_network(
        "c = Conv(x, w)\ny = Conv(c, v)", w=gaussian_array(8, 3, 3, 3), v=gaussian_array(8, 8, 3, 3)
    )
    found = _found(quantize_network(model).qlinear)
    assert ("error", "operator") in found
