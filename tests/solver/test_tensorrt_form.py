"""The form of files for TensorRT: int8 around products, floats everywhere else, read off the written graph."""

from __future__ import annotations

import pytest
from cases import CASES
from networks import (
    QuantizedNetwork,
    build_network,
    gaussian_array,
    quantize_network,
    worst_sqnr_db,
)

from ptq.core.errors import UsageError
from ptq.model.node import get_dtype, get_operator
from ptq.optimization.options import QuantizeOptions
from ptq.verification.lint import lint_graph

SAME = "<pads = [1, 1, 1, 1]>"
WEIGHTS = {
    "u": gaussian_array(8, 3, 3, 3, scale=0.2),
    "v": gaussian_array(8, 8, 3, 3, seed=1, scale=0.1),
    "b": gaussian_array(8, seed=2),
}
ACTIVATIONS = ("Relu", "HardSwish", "Sigmoid", "Tanh", "Elu", "LeakyRelu")
RESIDUAL = (
    f"a = Conv{SAME}(x, u, b)\nr = Relu(a)\nc = Conv{SAME}(r, v, b)\ns = Add(c, r)\nt = Relu(s)\n"
    f"y = Conv{SAME}(t, v, b)"
)


def quantized(nodes: str, **weights: object) -> QuantizedNetwork:
    """The network of these nodes, quantized for TensorRT."""
    return quantize_network(build_network(nodes, **{**WEIGHTS, **weights}), target="tensorrt")


def origins(done: QuantizedNetwork, op: str) -> list[list[str]]:
    """What writes each input of each node of an operator; an empty text for a constant or a graph input."""
    return [
        ["" if (m := v.producer()) is None else get_operator(m) for v in node.inputs if v is not None]
        for node in done.qdq.nodes
        if get_operator(node) == op
    ]  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_no_quantizer_stands_between_a_convolution_and_its_activation(activation: str) -> None:
    done = quantized(f"c = Conv{SAME}(x, u, b)\nr = {activation}(c)\ny = Conv{SAME}(r, v)")
    assert origins(done, activation) == [["Conv"]]
    assert origins(done, "Conv")[1][0] == "DequantizeLinear"
    assert worst_sqnr_db(done) > 20


def test_biases_stay_float_and_no_int32_is_dequantized() -> None:
    done = quantized(f"c = Conv{SAME}(x, u, b)\ny = Conv{SAME}(c, v, b)")
    assert [inputs[2] for inputs in origins(done, "Conv")] == ["", ""]
    read = [n.inputs[0] for n in done.qdq.nodes if get_operator(n) == "DequantizeLinear"]
    assert {str(get_dtype(value)) for value in read if value is not None} == {"int8"}


def test_zero_points_are_zero_and_only_weights_have_scales_by_channel() -> None:
    plan = quantized(RESIDUAL).plan
    assert all(not params.zero_point.any() for params in plan.tensors.values())
    assert all(params.axis is None for params in plan.tensors.values())
    assert all(params.axis == 0 for params in plan.operands.values())


def test_only_the_residual_of_a_sum_is_quantized() -> None:
    done = quantized(RESIDUAL)
    assert origins(done, "Add") == [["Conv", "DequantizeLinear"]]
    assert origins(done, "Relu") == [["Conv"], ["Add"]]
    assert worst_sqnr_db(done) > 20


def test_of_two_convolutions_the_later_one_adds_the_other() -> None:
    done = quantized(
        f"c = Conv{SAME}(x, u, b)\nd = Conv{SAME}(x, u)\ns = Add(c, d)\ny = Conv{SAME}(s, v)"
    )
    assert origins(done, "Add") == [["DequantizeLinear", "Conv"]]


def test_a_sum_that_no_convolution_can_compute_stays_float() -> None:
    done = quantized(
        f"a = Conv{SAME}(x, u)\nr = Relu(a)\nt = Tanh(a)\ns = Add(r, t)\ny = Conv{SAME}(s, v)"
    )
    assert origins(done, "Add") == [["Relu", "Tanh"]]
    assert done.float_reasons()["Add"].startswith("TensorRT adds on integers only")


def test_outputs_are_float_and_so_are_layers_that_only_move_or_normalize() -> None:
    done = quantized(
        f"c = Conv{SAME}(x, u)\nm = MaxPool<kernel_shape = [2, 2]>(c)\nd = Conv{SAME}(m, v)\n"
        "y = Softmax(d)"
    )
    assert origins(done, "Softmax") == [["Conv"]]
    assert origins(done, "MaxPool") == [["Conv"]]


def test_both_operands_of_a_product_of_activations_are_quantized() -> None:
    model = build_network(
        "q = MatMul(x, w)\nt = Transpose<perm = [0, 2, 1]>(q)\ns = MatMul(q, t)\np = Softmax(s)\ny = MatMul(p, q)",
        {"x": (1, 6, 16)},
        w=gaussian_array(16, 16, scale=0.3),
    )
    done = quantize_network(model, target="tensorrt")
    assert origins(done, "MatMul") == [["DequantizeLinear"] * 2] * 3
    assert origins(done, "Softmax") == [["MatMul"]]


def test_a_node_that_is_skipped_reads_floats() -> None:
    model = build_network(f"c = Conv{SAME}(x, u, b)\ny = Conv{SAME}(c, v, b)", **WEIGHTS)
    done = quantize_network(model, target="tensorrt", skip=["Conv_y"])
    assert origins(done, "Conv") == [["DequantizeLinear", "DequantizeLinear", ""], ["Conv", "", ""]]


@pytest.mark.parametrize("name", CASES)
def test_every_case_keeps_the_rules_of_the_importer(name: str) -> None:
    done = quantize_network(CASES[name], target="tensorrt")
    assert lint_graph(done.qdq, "tensorrt") == ()


def test_the_form_with_integer_operators_is_refused() -> None:
    with pytest.raises(UsageError, match="target tensorrt cannot read form qoperator"):
        QuantizeOptions(target="tensorrt", form="qoperator").check_target()
