"""LiteRT's 8-bit specification as the oracle: each rule broken once, and a model that keeps them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import CASES
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers
from networks import build_network, gaussian_array, quantize_network

import ptq
from ptq.core.errors import UsageError
from ptq.core.targets import TARGETS
from ptq.model.graph import Graph
from ptq.verification.conversion import convert_graph
from ptq.verification.lint import lint_graph

CONV = (1, 3, 8, 8)
ROWS = (5, 16)
X, W = np.float32(0.03), np.float32(0.01)
SIGNED = {"x_zero": np.int8(-8), "y_zero": np.int8(-20)}
BIASED = (
    "wd = DequantizeLinear(w, w_scale, w_zero)\nbd = DequantizeLinear(b, b_scale, b_zero)\n"
    "r = Conv(xd, wd, bd)"
)


def _kept(*shape: int) -> Any:
    return np.clip(random_integers(*shape), -127, 127)


def _conv(**changed: Any) -> Graph:
    """A Conv that keeps the specification, but for what is changed."""
    constants = {
        "w": _kept(8, 3, 3, 3),
        "b": random_integers(8, dtype=np.int16).astype(np.int32),
        "b_scale": X * W,
        "b_zero": np.int32(0),
        **SIGNED,
        **changed,
    }
    nodes = constants.pop("nodes", BIASED)
    return foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **constants)


def _rules(graph: Graph) -> list[str]:
    return [finding.rule for finding in lint_graph(graph) if finding.severity == "error"]


def test_a_conv_of_the_specification_has_no_finding():
    assert lint_graph(_conv()) == ()


@pytest.mark.parametrize(
    ("changed", "rule", "clause"),
    [
        ({"y_zero": np.uint8(100)}, "activation-type", "CONV_2D: Output 0, data_type"),
        (
            {"w_zero": np.int8(3)},
            "weight-zero-point",
            "CONV_2D: Input 1 (Weight), restriction: zero_point = 0",
        ),
        ({"w": random_integers(8, 3, 3, 3)}, "weight-range", "CONV_2D: Input 1 (Weight), range"),
        (
            {"w": random_integers(8, 3, 3, 3, dtype=np.uint8), "w_zero": np.uint8(0)},
            "weight-type",
            "CONV_2D: Input 1 (Weight), data_type",
        ),
        (
            {"b_scale": np.float32(0.0004)},
            "bias-scale",
            "CONV_2D: Input 2 (Bias), restriction: (scale, zero_point) = "
            "(input0_scale * input1_scale[...], 0)",
        ),
        (
            {"nodes": BIASED.replace("xd, wd, bd", "xd, wd, b"), "b": gaussian_array(8)},
            "bias-type",
            "CONV_2D: Input 2 (Bias), data_type",
        ),
    ],
)
def test_each_breach_of_a_conv_is_found_with_its_clause(changed, rule, clause):
    findings = [finding for finding in lint_graph(_conv(**changed)) if finding.severity == "error"]
    assert [(finding.rule, finding.clause) for finding in findings] == [(rule, clause)]


def test_a_bias_scale_one_unit_in_the_last_place_off_is_the_product_rounded_otherwise():
    assert lint_graph(_conv(b_scale=np.nextafter(X * W, np.float32(1)))) == ()


def test_one_wrong_scale_among_the_channels_is_named():
    scales = np.linspace(0.01, 0.02, 8, dtype=np.float32)
    wrong = X * scales
    wrong[5] *= 2
    nodes = BIASED.replace("(w,", "<axis = 0>(w,").replace("(b,", "<axis = 0>(b,")
    graph = _conv(
        nodes=nodes,
        w_scale=scales,
        w_zero=np.zeros(8, np.int8),
        b_scale=wrong,
        b_zero=np.zeros(8, np.int32),
    )
    (finding,) = lint_graph(graph)
    assert finding.rule == "bias-scale"
    assert "in channel 5" in finding.text


def test_a_depthwise_conv_is_cited_under_its_own_heading():
    nodes = "wd = DequantizeLinear(w, w_scale, w_zero)\nr = Conv<group = 3>(xd, wd)"
    lowest = np.full((6, 1, 3, 3), -128, np.int8)
    (finding,) = lint_graph(foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, w=lowest, **SIGNED))
    assert finding.clause == "DEPTHWISE_CONV_2D: Input 1 (Weight), range"


def test_a_pad_with_a_value_is_cited_under_its_own_heading():
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    for value, heading in ((0.5, "PADV2"), (0.0, "PAD")):
        nodes = "r = Pad(xd, p, v)"
        graph = foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, p=pads, v=np.float32(value), **SIGNED)
        (finding,) = lint_graph(graph)
        assert finding.clause.startswith(f"{heading}: restriction: Input and outputs")


def test_scales_along_the_wrong_axis_of_a_weight_are_found():
    nodes = "wd = DequantizeLinear<axis = 0>(w, w_scale, w_zero)\nr = Gemm(xd, wd)"
    graph = foreign_graph(
        INPUT_QDQ + nodes + OUTPUT_QDQ,
        ROWS,
        w=_kept(16, 8),
        w_scale=np.linspace(0.01, 0.02, 16, dtype=np.float32),
        w_zero=np.zeros(16, np.int8),
        **SIGNED,
    )
    assert _rules(graph) == ["weight-axis"]


def test_an_activation_with_a_scale_a_channel_is_found():
    nodes = (
        "xq = QuantizeLinear<axis = 1>(x, x_scale, x_zero)\n"
        "xd = DequantizeLinear<axis = 1>(xq, x_scale, x_zero)\nr = Sub(xd, xd)\n" + OUTPUT_QDQ
    )
    graph = foreign_graph(
        nodes,
        x_scale=np.linspace(0.01, 0.02, 3, dtype=np.float32),
        x_zero=np.zeros(3, np.int8),
        y_zero=np.int8(0),
    )
    assert _rules(graph) == ["per-tensor", "per-tensor"]


@pytest.mark.parametrize(
    "nodes",
    [
        "r = MaxPool<kernel_shape = [2, 2]>(xd)",
        "r = AveragePool<kernel_shape = [2, 2]>(xd)",
        "r = Concat<axis = 1>(xd, xd)",
        "r = Transpose<perm = [0, 2, 3, 1]>(xd)",
    ],
)
def test_operators_that_keep_their_scale_must_keep_it(nodes):
    (finding,) = lint_graph(foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **SIGNED))
    assert finding.rule == "same-scale"
    assert finding.tensor == "yq"
    assert finding.clause.endswith("Input and outputs must all have same scale/zero_point")
    same = {**SIGNED, "y_zero": np.int8(-8), "y_scale": X}
    assert lint_graph(foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **same)) == ()


@pytest.mark.parametrize(
    ("nodes", "clause", "scale", "zero_point"),
    [
        ("r = Sigmoid(xd)", "LOGISTIC: Output 0, restriction: (scale, zero_point) = "
         "(1.0 / 256.0, -128)", 1 / 256, -128),
        ("r = Softmax(xd)", "SOFTMAX: Output 0, restriction: (scale, zero_point) = "
         "(1.0 / 256.0, -128)", 1 / 256, -128),
        ("r = Tanh(xd)", "TANH: Output 0, restriction: (scale, zero_point) = "
         "(1.0 / 128.0, 0)", 1 / 128, 0),
    ],
)  # fmt: skip
def test_prescribed_ranges_are_held_against_the_model(nodes, clause, scale, zero_point):
    (finding,) = lint_graph(foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **SIGNED))
    assert (finding.rule, finding.clause) == ("fixed-output", clause)
    obeyed = {**SIGNED, "y_scale": np.float32(scale), "y_zero": np.int8(zero_point)}
    assert lint_graph(foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **obeyed)) == ()


def test_an_operator_without_a_specification_is_a_note_not_a_violation():
    (finding,) = lint_graph(foreign_graph(INPUT_QDQ + "r = Erf(xd)" + OUTPUT_QDQ, **SIGNED))
    assert (finding.rule, finding.severity, finding.node) == ("unspecified", "note", "Erf_r")
    assert finding.text.endswith("ptq runs it in integers, LiteRT in float")


def test_what_tflite_micro_does_not_load_is_one_note():
    body = "r1 = Exp(xd)\nr1q = QuantizeLinear(r1, y_scale, y_zero)\n"
    body += "r1d = DequantizeLinear(r1q, y_scale, y_zero)\nr = Exp(r1d)"
    *_, finding = found = lint_graph(foreign_graph(INPUT_QDQ + body + OUTPUT_QDQ, **SIGNED))
    assert [f.rule for f in found].count("microcontroller") == 1
    assert (finding.rule, finding.severity, finding.node) == ("microcontroller", "note", "Exp_r1")
    assert "tflite-micro loads no file with EXP of int8 (Exp, and 1 more)" in finding.text


def test_what_is_not_requantized_runs_in_float():
    (finding,) = lint_graph(foreign_graph(INPUT_QDQ + "y = Erf(xd)", **SIGNED))
    assert finding.text.endswith("it runs in float")


def test_what_ptq_quantizes_without_a_clause_is_not_said_to_run_in_float():
    nodes = "h = LayerNormalization(x, g)\ny = Gemm(h, w)"
    done = quantize_network(
        build_network(nodes, {"x": (4, 8)}, g=gaussian_array(8), w=gaussian_array(8, 4)),
        target="litert",
    )
    assert [f.text.rpartition("; ")[2] for f in lint_graph(done.qdq)] == [
        "ptq runs it in integers, LiteRT in float"
    ]


def test_dynamic_quantization_is_outside_the_specification():
    nodes = "q, s, z = DynamicQuantizeLinear(x)\ni = MatMulInteger(q, w, z)\nf = Cast<to = 1>(i)\n"
    graph = foreign_graph(nodes + "y = Mul(f, s)", ROWS, w=_kept(16, 8))
    assert _rules(graph) == ["dynamic", "dynamic"]


def test_both_forms_have_the_same_findings():
    graph = _conv(w=random_integers(8, 3, 3, 3), y_zero=np.uint8(100))
    qoperator = lint_graph(convert_graph(_conv(w=random_integers(8, 3, 3, 3)), "qoperator"))
    assert [finding.rule for finding in qoperator] == ["weight-range"]
    assert set(_rules(graph)) == {"weight-range", "activation-type"}


def test_what_ptq_quantizes_for_litert_passes_its_own_lint():
    nodes = """
        c = Conv<pads = [1, 1, 1, 1]>(x, w, b)
        r = Relu(c)
        p = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(r)
        q = Concat<axis = 1>(p, p)
        y = Sigmoid(q)
    """
    model = build_network(nodes, w=gaussian_array(4, 3, 3, 3), b=gaussian_array(4))
    findings = lint_graph(quantize_network(model, target="litert").qdq)
    assert [f for f in findings if f.severity == "error"] == []


def test_what_ptq_quantizes_for_gemmlowp_passes_its_own_lint():
    nodes = "c = Conv<pads = [1, 1, 1, 1]>(x, w, b)\ny = Relu(c)"
    model = build_network(nodes, w=gaussian_array(4, 3, 3, 3) + 1, b=gaussian_array(4))
    graph = quantize_network(model, target="gemmlowp", per_tensor=True).qdq
    assert lint_graph(graph, "gemmlowp") == ()
    assert "weight-zero-point" in _rules(graph)  # LiteRT wants 0


@pytest.mark.parametrize(
    "target", ["gemmlowp", "litert", "litert-xnnpack", "ort-xnnpack", "tensorrt"]
)
@pytest.mark.parametrize("name", [*[*CASES][::9], "conv transpose grouped"])
def test_what_ptq_quantizes_breaks_no_rule_of_its_target(name: str, target: str) -> None:
    done = quantize_network(CASES[name], target=target, per_tensor=target == "gemmlowp")
    assert [f for f in lint_graph(done.qdq, target) if f.severity == "error"] == []


def test_rules_of_a_target_are_tested_on_its_own_files():
    assert {name for name, row in TARGETS.items() if row.lint} == {
        "gemmlowp", "litert", "litert-xnnpack", "ort-xnnpack", "tensorrt",
    }  # fmt: skip


def test_an_operator_in_float_has_no_rules_of_an_integer_one():
    weight = "wd = DequantizeLinear(w, w_scale, w_zero)\n"
    skipped = "r = Conv(xd, v, u)"  # a float weight and a float bias
    constants = {"v": gaussian_array(8, 3, 3, 3), "u": gaussian_array(8), **SIGNED}
    (finding,) = lint_graph(foreign_graph(INPUT_QDQ + skipped + OUTPUT_QDQ, **constants))
    assert (finding.rule, finding.severity) == ("float", "note")
    (finding,) = lint_graph(
        foreign_graph(
            INPUT_QDQ + weight + "y = Conv(xd, wd, u)",
            w=_kept(8, 3, 3, 3),
            u=gaussian_array(8),
            **SIGNED,
        )
    )
    assert (finding.rule, finding.severity) == ("float", "note")
    assert lint_graph(foreign_graph("r = Softmax(x)" + OUTPUT_QDQ, **SIGNED)) == ()


def test_an_operator_in_float_keeps_the_rules_of_its_quantized_weight_and_tensors():
    weight = "wd = DequantizeLinear(w, w_scale, w_zero)\n"
    graph = foreign_graph(
        INPUT_QDQ + weight + "y = Conv(xd, wd)",
        w=_kept(8, 3, 3, 3),
        w_zero=np.int8(3),
        x_zero=np.uint8(100),
    )
    assert _rules(graph) == ["activation-type", "weight-zero-point"]


def test_a_target_without_a_specification_cannot_be_linted():
    with pytest.raises(UsageError, match="has no rules"):
        lint_graph(_conv(), "ort")


@pytest.mark.parametrize(("target", "checked"), [("tensorrt", "tensorrt"), ("ort", "litert")])
def test_a_model_keeps_the_rules_of_the_target_that_it_records(target: Any, checked: Any) -> None:
    network = build_network(
        "y = Conv(x, w)\n", {"x": ("N", 3, 8, 8)}, ["y"], w=gaussian_array(4, 3, 3, 3)
    )
    samples = np.random.default_rng(0).normal(size=(16, 3, 8, 8)).astype(np.float32)
    model = ptq.quantize(network, {"x": samples}, target=target, effort="fast").model
    findings = {name: ptq.lint(model, target=name) for name in ("litert", "tensorrt")}
    assert ptq.lint(model) == findings[checked]
    assert findings["litert"] != findings["tensorrt"]
