"""The QOperator form: ONNX Runtime's run of the QDQ form is its oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from cases import CASES, case_in_onnx_runtime, quantized_case
from networks import find_disagreements, optimized_kernels

from ptq.core.ops import OPS
from ptq.model.machine.ort_version import INSTALLED, Version
from ptq.model.node import get_operator
from ptq.model.session.session import Session
from ptq.rewrite.emit import to_qlinear


@pytest.mark.parametrize("name", CASES)
def test_every_form_gives_the_same_bits(name: str) -> None:
    assert find_disagreements(case_in_onnx_runtime(name)) == []


# on int8, ONNX Runtime's average pool breaks ties another way channels last than channels first; and a Gemm of
# two activations that stays float is summed in integers between dequantizers
OWN_WAYS = ("average pool", "average pool ceil", "gemm of two activations")


@pytest.mark.parametrize("name", [name for name in CASES if name not in OWN_WAYS])
def test_every_form_of_a_litert_model_gives_the_same_bits_in_onnx_runtime(name: str) -> None:
    assert find_disagreements(case_in_onnx_runtime(name, "litert")) == []


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_valid_onnx(name: str) -> None:
    onnx.checker.check_model(quantized_case(name).qlinear.to_proto())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("residual", {"QLinearConv": 2, "QLinearAdd": 1}),
        ("swish", {"QLinearConv": 1, "QLinearSigmoid": 1, "QLinearMul": 1}),
        ("concat", {"QLinearConv": 2, "QLinearConcat": 1}),
        ("gemm", {"QGemm": 1}),
        (
            "attention",
            {
                "QLinearMatMul": 3,
                "Transpose": 1,
                "Softmax": 1,
                "MatMulIntegerToFloat": 2,
            },
        ),
        ("average pool", {"QLinearConv": 1, "QLinearAveragePool": 1}),
        ("global average pool", {"QLinearConv": 1, "QLinearGlobalAveragePool": 1}),
        ("leaky relu", {"QLinearConv": 1, "QLinearLeakyRelu": 1}),
        ("max pool", {"QLinearConv": 1, "MaxPool": 1}),
        ("pad with a value", {"QLinearConv": 1, "Pad": 1}),
        ("clip 1 5", {"QLinearConv": 1, "Clip": 1}),
    ],
)
def test_integer_operators_take_the_place_of_float_ones(
    name: str, expected: dict[str, int]
) -> None:
    graph = quantized_case(name).qlinear
    kinds = [node.op_type for node in graph.nodes]
    counted = {op: kinds.count(op) for op in set(kinds) - {"QuantizeLinear", "DequantizeLinear"}}
    assert counted == expected
    assert kinds.count("QuantizeLinear") == 1 + kinds.count(
        "Softmax"
    )  # which hands on real numbers
    # the last product hands out real numbers
    real = expected.keys() & {"QGemm", "MatMulIntegerToFloat"}
    assert kinds.count("DequantizeLinear") == (0 if real else 1)


def test_the_integers_of_every_tensor_keep_their_name() -> None:
    done = quantized_case("residual")
    before = {v.name for n in done.qdq.nodes if n.op_type == "QuantizeLinear" for v in n.outputs}
    after = {v.name for n in done.qlinear.nodes for v in n.outputs}
    assert before <= after


def test_the_qdq_graph_is_left_alone() -> None:
    done = quantized_case("residual")
    before = done.qdq.to_bytes()
    assert done.qlinear.to_bytes() != before
    assert done.qdq.to_bytes() == before


def test_what_has_no_integer_form_keeps_its_quantizers() -> None:
    kernels = optimized_kernels(quantized_case("tanh between").qlinear)
    assert kernels["Tanh"] == 1
    assert kernels["QLinearConv"] == 2


@pytest.mark.parametrize("name", CASES)
def test_no_operator_with_an_integer_form_is_left_between_quantizers(name: str) -> None:
    left = []
    for node in quantized_case(name).qlinear.nodes:
        spec = OPS.get(get_operator(node))
        if spec is None or spec.qlinear is None or not spec.qlinear.op:
            continue
        before = node.inputs[0].producer() if node.inputs[0] is not None else None
        after = [use.node.op_type for use in node.outputs[0].uses()]
        if before is not None and before.op_type == "DequantizeLinear":
            left += [spec.op] if after == ["QuantizeLinear"] else []
    assert left == []


@pytest.mark.parametrize(
    ("name", "target", "runtime", "between_quantizers"),
    [
        ("depth to space", "ort", (1, 20), True),
        ("depth to space", "ort", (1, 21), False),
        ("depth to space", "litert", (1, 27), True),
        ("depth to space", "litert", (1, 28), False),
        ("space to depth", "ort", (1, 27), True),
        ("space to depth", "litert", (1, 27), True),
        ("space to depth", "litert", (1, 28), False),
    ],
)
def test_where_onnx_runtime_has_no_integer_kernel_the_quantizers_stay(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    target: str,
    runtime: Version,
    between_quantizers: bool,
) -> None:
    done = quantized_case(name, target)
    monkeypatch.setattr(to_qlinear, "INSTALLED", runtime)
    made = to_qlinear.to_qlinear(done.qdq)
    (node,) = [n for n in made.nodes if n.op_type.startswith(("DepthTo", "SpaceTo"))]
    before, after = node.inputs[0].producer(), next(iter(node.outputs[0].uses())).node
    assert (before.op_type == "DequantizeLinear") is between_quantizers
    assert (after.op_type == "QuantizeLinear") is between_quantizers
    if runtime <= INSTALLED:
        for one, other in zip(
            Session(made, threads=1).run(done.feeds[0]),
            Session(done.qdq, threads=1).run(done.feeds[0]),
            strict=True,
        ):
            assert one.tobytes() == other.tobytes()


def test_weights_are_stored_in_eight_bits() -> None:
    graph = quantized_case("gemm twice").qlinear
    sizes = {
        v.name: v.const_value.nbytes
        for n in graph.nodes
        for v in n.inputs
        if v is not None and v.const_value is not None
    }
    assert sizes["m_quantized"] == 16 * 8
    assert sizes["n_quantized"] == 8 * 4
    assert all(
        np.prod(v.const_value.shape) <= 8
        for n in graph.nodes
        for v in n.inputs
        if v is not None and v.const_value is not None and v.const_value.dtype == 1
    )
