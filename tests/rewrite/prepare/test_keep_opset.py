"""A model whose opset is kept: nothing raises it, and what needs a newer one stays float with the reason."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.session.session import Session
from ptq.rewrite.match import get_scalar_constant
from ptq.rewrite.prepare.prepare import prepare

GELU = """
h = Gemm(x, w, b)
d = Div(h, root2)
e = Erf(d)
a = Add(e, one)
m = Mul(h, a)
g = Mul(m, half)
y = Gemm(g, v, b)
"""
MISH = """
h = Gemm(x, w, b)
s = Softplus(h)
t = Tanh(s)
g = Mul(h, t)
y = Gemm(g, v, b)
"""
HARD_SWISH = """
h = Gemm(x, w, b)
a = Add(h, three)
c = Clip(a, zero, six)
m = Mul(h, c)
g = Div(m, six)
y = Gemm(g, v, b)
"""
NORM = """
h = Gemm(x, w, b)
n = ReduceMean<axes=[-1]>(h)
c = Sub(h, n)
p = Pow(c, two)
q = ReduceMean<axes=[-1]>(p)
i = Add(q, eps)
r = Sqrt(i)
g = Div(c, r)
y = Gemm(g, v, b)
"""
CONSTANTS = {
    "root2": np.sqrt(2),
    "half": 0.5,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "zero": 0.0,
    "six": 6.0,
    "eps": 1e-5,
}
FUNCTIONS = {
    "Gelu": (GELU, 20, {"Div", "Erf", "Add", "Mul"}),
    "Mish": (MISH, 18, {"Softplus", "Tanh", "Mul"}),
    "HardSwish": (HARD_SWISH, 14, {"Add", "Clip", "Mul", "Div"}),
    "LayerNormalization": (NORM, 17, {"ReduceMean", "Sub", "Pow", "Add", "Sqrt", "Div"}),
}
SAMPLES = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)


def network(nodes: str, opset: int) -> onnx.ModelProto:
    return build_network(
        nodes,
        {"x": ("N", 32)},
        opset=opset,
        w=gaussian_array(32, 32),
        v=gaussian_array(32, 32),
        b=gaussian_array(32),
        **{name: np.float32(value) for name, value in CONSTANTS.items() if name in nodes},
    )


@pytest.mark.parametrize("target", ["ort", "litert"])
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_result_has_the_opset_of_the_float_model_and_its_integers_are_right(
    function: str, opset: int, target: str
) -> None:
    nodes, needs, operators = FUNCTIONS[function]
    model = network(nodes, opset)
    result = ptq.quantize(
        model, {"x": SAMPLES}, opset="keep", target=target, equalize=False, rounding="nearest",
        method="mse", threads=1,
    )  # fmt: skip
    imports = {o.domain: o.version for o in result.model.opset_import}
    assert imports[""] == opset
    onnx.checker.check_model(result.model, full_check=True)
    assert Session(Graph.from_proto(result.model), threads=1).outputs == ("y",)
    assert result.report.evaluation is not None
    assert result.report.evaluation.forms["int8"].outputs["y"].sqnr_db > 25
    assert result.report.evaluation.forms["integers"].outputs["y"].sqnr_db > 25
    assert not [s for s in result.report.suspects if s.where == "opset"]
    ops = {row.op: row for row in result.report.nodes}
    if needs > opset:
        assert function not in ops
        assert {row.op for row in result.report.nodes if row.fate == "float"} >= operators & {*ops}
        declined = (
            f"not applied to 1 {function} node: opset {opset} is kept, and the operator needs"
        )
        assert any(declined in change for change in result.report.changes)
    assert {row.fate for row in result.report.nodes if row.op == "Gemm"} == {"int8"}
    (passed,) = [ptq.verify(result.model, {"x": SAMPLES[:8]}, threads=1).passed]
    assert passed or target == "litert"


def test_pieces_of_a_function_stay_float_with_the_reason() -> None:
    prepared = prepare(Graph.from_proto(network(GELU, 17)), keep_opset=True)
    assert prepared.graph.opset == 17
    assert {*prepared.float_nodes.values()} == {"opset 17 is kept, and the operator needs opset 20"}
    found = {node.op_type for node in prepared.graph.nodes if node.name in prepared.float_nodes}
    assert found >= {"Erf", "Add", "Mul"}
    assert "Gemm" not in found
    assert prepare(Graph.from_proto(network(GELU, 20)), keep_opset=True).float_nodes == {}


def test_a_raised_opset_is_reported_above_everything() -> None:
    result = ptq.quantize(network(GELU, 17), {"x": SAMPLES}, rounding="nearest", threads=1)
    assert any(w.startswith("opset: raised from 17 to 20") for w in result.report.warnings)
    assert {o.domain: o.version for o in result.model.opset_import}[""] == 20


def test_opset_11_cannot_be_kept_and_is_refused_before_any_run() -> None:
    model = network("y = Gemm(x, w, b)", 11)
    with pytest.raises(
        ptq.ModelError, match="opset 11 cannot be kept: quantizers with a scale for"
    ):
        ptq.quantize(model, {"x": SAMPLES}, opset="keep")
    with pytest.raises(ptq.ModelError, match="export opset 13 or newer"):
        ptq.inspect(model, opset="keep")


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("opset", [10, 11, 12])
def test_an_old_opset_is_kept_with_one_scale_for_each_weight(opset: int, form: str) -> None:
    model = build_network(
        "c = Conv<pads = [1, 1, 1, 1]>(x, w)\nu = Unsqueeze<axes = [1]>(c)\ns = Squeeze<axes = [1]>(u)\n"
        "r = Relu(s)\np = Softmax<axis = 3>(r)\nm = Mul(p, r)\ng = GlobalAveragePool(m)\n"
        "f = Flatten(g)\ny = MatMul(f, v)",
        {"x": ("N", 3, 8, 8)},
        opset=opset,
        w=gaussian_array(8, 3, 3, 3, scale=0.2),
        v=gaussian_array(8, 10),
    )
    data = {"x": gaussian_array(40, 3, 8, 8, seed=2)}
    given = {"form": form, "per_tensor": True, "effort": "fast", "threads": 1, "force": True}
    kept = ptq.quantize(model, data, opset="keep", **given)
    raised = ptq.quantize(model, data, **given)
    onnx.checker.check_model(kept.model, full_check=True)
    assert {o.domain: o.version for o in kept.model.opset_import}[""] == opset
    assert {o.domain: o.version for o in raised.model.opset_import}[""] >= 13
    found, expected = (
        Session(Graph.from_proto(result.model), threads=1, optimize="basic").run(data)[0]
        for result in (kept, raised)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [10, 12])
@pytest.mark.parametrize(
    "behind",
    [
        "r = Max(c, low)",
        "r = Min(c, low)",
        "s = Shape(c)\nn = Gather<axis = 0>(s, zero)\nu = Unsqueeze<axes = [0]>(n)\n"
        "t = Concat<axis = 0>(u, rest)\nr = Reshape(c, t)",
    ],
)
def test_an_old_opset_is_kept_where_its_operators_have_another_form(
    behind: str, opset: int
) -> None:
    model = build_network(
        f"c = Conv(x, w)\n{behind}\nf = Flatten(r)\ny = MatMul(f, v)",
        {"x": ("N", 3, 8, 8)},
        opset=opset,
        w=gaussian_array(8, 3, 3, 3, scale=0.2),
        v=gaussian_array(288, 4),
        low=np.float32(0.1),
        zero=np.array(0),
        rest=np.array([-1]),
    )
    x = gaussian_array(24, 3, 8, 8, seed=2)
    given = {"opset": "keep", "per_tensor": True, "effort": "fast", "threads": 1, "force": True}
    made = ptq.quantize(model, {"x": x}, **given)
    onnx.checker.check_model(made.model, full_check=True)
    assert {o.domain: o.version for o in made.model.opset_import}[""] == opset
    (found,), (expected,) = (
        Session(Graph.from_proto(each), threads=1).run({"x": x}) for each in (made.model, model)
    )
    assert np.square(found - expected).mean() < 1e-3 * np.square(expected).mean()


SPREAD = np.geomspace(0.003, 1, 8, dtype=np.float32)[:, None, None]
BETWEEN_CLIPS = {
    "layers": ("y = Conv(p, u)", {"u": gaussian_array(4, 8, 3, 3, seed=1) / SPREAD}),
    "a Concat": (
        "d = Conv(x, v)\nq = {second}\nk = Concat<axis = 1>(p, q)\ny = Conv(k, u)",
        {"v": gaussian_array(8, 3, 3, 3, seed=2), "u": gaussian_array(4, 16, 3, 3, seed=1)},
    ),
    "a HardSwish": (
        "e = Add(c, three)\nh = {second}\nm = Mul(c, h)\ny = Div(m, six)",
        {"three": np.float32(3), "six": np.float32(6)},
    ),
}


@pytest.mark.parametrize("between", BETWEEN_CLIPS)
def test_bounds_of_a_clip_count_alike_as_attributes_and_as_inputs(between: str) -> None:
    nodes, weights = BETWEEN_CLIPS[between]
    source = "e" if "e =" in nodes else "d"
    clips = {
        10: ("Clip<min = -1.0, max = 1.0>(c)", f"Clip<min = 0.0, max = 6.0>({source})"),
        11: ("Clip(c, below, one)", f"Clip({source}, zero, six)"),
    }
    bounds = {"below": -1, "zero": 0, "one": 1, "six": 6}
    weights = {**weights, "w": gaussian_array(8, 3, 3, 3) * SPREAD[:, None]}
    given = {
        "opset": "keep",
        "per_tensor": True,
        "rounding": "nearest",
        "threads": 1,
        "force": True,
    }
    made = []
    for opset, (first, second) in clips.items():
        constants = {k: np.float32(v) for k, v in bounds.items() if opset == 11 or k == "six"}
        model = build_network(
            f"c = Conv(x, w)\np = {first}\n{nodes.format(second=second)}",
            {"x": ("N", 3, 8, 8)},
            opset=opset,
            **{**constants, **weights},
        )
        made.append(ptq.quantize(model, {"x": gaussian_array(24, 3, 8, 8, seed=3)}, **given))
    attributes, inputs = (result.plan for result in made)
    assert attributes.tensors == inputs.tensors
    assert attributes.folded == inputs.folded
    assert {*attributes.floats} == {*inputs.floats}


def test_a_plan_with_one_scale_for_each_weight_keeps_an_old_opset() -> None:
    model = network("y = Gemm(x, w, b)", 12)
    given = {"opset": "keep", "rounding": "nearest", "threads": 1, "force": True}
    made = ptq.quantize(model, {"x": SAMPLES}, per_tensor=True, **given)
    again = ptq.quantize(model, {"x": SAMPLES}, plan=made.plan, **given)
    assert again.model.graph == made.model.graph


@pytest.mark.parametrize(
    ("node", "opset", "reason"),
    [
        ("y = Softmax<axis = 1>(c)", 12, "Softmax Softmax_y is another operator there"),
        ("y = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(c)", 10, "Pad Pad_y is another operator there"),
        ("y = Relu(c)", 9, "QuantizeLinear needs opset 10"),
    ],
)
def test_an_old_opset_that_cannot_be_kept_says_why(node: str, opset: int, reason: str) -> None:
    weights = {"w": gaussian_array(8, 3, 3, 3)}
    model = build_network(f"c = Conv(x, w)\n{node}", {"x": ("N", 3, 8, 8)}, opset=opset, **weights)
    with pytest.raises(ptq.ModelError, match=f"opset {opset} cannot be kept: {reason}"):
        ptq.quantize(model, {"x": gaussian_array(8, 3, 8, 8)}, opset="keep", per_tensor=True)


def test_statistics_of_a_kept_opset_serve_a_quantization_that_keeps_it() -> None:
    model = network(GELU, 17)
    stats = ptq.calibrate(model, {"x": SAMPLES}, opset="keep", threads=1)
    given = {"stats": stats, "eval_data": {"x": SAMPLES}, "method": "mse", "threads": 1}
    assert ptq.quantize(model, opset="keep", **given).report.evaluation is not None
    with pytest.raises(ptq.StatsError):
        ptq.quantize(model, **given)


def test_an_unknown_way_with_the_opset_is_a_usage_error() -> None:
    with pytest.raises(ptq.UsageError, match="opset 'stay' is unknown; choose one of auto, keep"):
        ptq.quantize(network(GELU, 17), {"x": SAMPLES}, opset="stay")  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["portable", "openvino"])
@pytest.mark.parametrize("opset", ["auto", "keep"])
@pytest.mark.parametrize("function", ["Gelu", "Mish", "HardSwish"])
def test_no_opset_is_raised_for_a_function_that_the_target_computes_in_float(
    function: str, opset: str, target: str
) -> None:
    model = network(FUNCTIONS[function][0], 13)
    given = {"target": target, "rounding": "nearest", "threads": 1, "force": True}
    result = ptq.quantize(model, {"x": SAMPLES}, opset=opset, **given)
    assert {o.domain: o.version for o in result.model.opset_import}[""] == 13
    assert not [change for change in result.report.changes if "opset" in change]
    assert {r.fate for r in result.report.nodes if r.op == "Gemm"} == {"int8"}
    assert not [reason for reason in result.plan.floats.values() if "opset" in reason]


@pytest.mark.parametrize(("function", "last"), [("Gelu", 0.5), ("HardSwish", 1 / 6)])
def test_a_function_in_several_operators_keeps_its_factor(function: str, last: float) -> None:
    graph = Graph.from_proto(network(FUNCTIONS[function][0], 13))
    pieces = prepare(graph, float_functions=True).graph
    [behind] = [node for node in pieces.nodes if node.outputs[0].name == "y"]
    factor = behind.inputs[0].producer()
    assert get_operator(factor) == "Mul"
    [constant] = [get_scalar_constant(value) for value in factor.inputs if value.producer() is None]
    assert constant == pytest.approx(last)


def test_an_old_opset_is_raised_to_what_the_quantizers_need() -> None:
    model = network("y = Gemm(x, w, b)", 12)
    given = {"rounding": "nearest", "threads": 1, "force": True}
    lean = ptq.quantize(model, {"x": SAMPLES}, target="portable", **given)
    assert {o.domain: o.version for o in lean.model.opset_import}[""] == 13
    usual = ptq.quantize(model, {"x": SAMPLES}, target="ort", **given)
    assert {o.domain: o.version for o in usual.model.opset_import}[""] == 17


def test_statistics_serve_a_target_that_raises_no_opset() -> None:
    model = network(GELU, 17)
    stats = ptq.calibrate(model, {"x": SAMPLES}, threads=1)
    given = {"eval_data": {"x": SAMPLES}, "target": "portable", "threads": 1, "force": True}
    made = ptq.quantize(model, stats=stats, **given)
    again = ptq.quantize(model, plan=made.plan, **given)
    assert made.plan.graph == again.plan.graph == stats.graph
