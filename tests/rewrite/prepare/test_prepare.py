from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import ptq
from ptq.model.graph import Graph
from ptq.rewrite.prepare.cancel_transposes import cancel_transposes
from ptq.rewrite.prepare.einsum_to_matmul import rewrite_einsum_to_matmul
from ptq.rewrite.prepare.fold_where import fold_where
from ptq.rewrite.prepare.fuse_prelu import fuse_prelu
from ptq.rewrite.prepare.move_views import move_views
from ptq.rewrite.prepare.prepare import NEWER, OLDER_FORMS, PREPARE, prepare

SAMPLE = Path(__file__).parents[3] / "sample_data" / "fashion_mobilenet.onnx"
LINKS = {
    "Conv": "Conv<pads=[1,1,1,1]>({x}, w)",
    "shared Conv": "Conv<pads=[1,1,1,1]>({x}, w, o)",
    "depthwise": 'Conv<group=3, auto_pad="SAME_LOWER">({x}, d)',
    "ConvTranspose": "ConvTranspose<pads=[1,1,1,1]>({x}, w)",
    "normalize": "BatchNormalization<epsilon=0.01>({x}, s, o, m, v)",
    "factor": "Mul({x}, c)",
    "offset": "Sub(c, {x})",
    "pad": "Pad({x}, p)",
    "pool": "AveragePool<kernel_shape=[2,2]>({x})",
    "MaxPool": 'MaxPool<kernel_shape=[2,2], auto_pad="SAME_UPPER">({x})',
    "Relu": "Relu({x})",
    "Identity": "Identity({x})",
    "Dropout": "Dropout({x})",
    "twice": "Add({x}, {x})",
    "first": "Add({x}, first)",
    "shape": "Reshape({x}, size_{i})",
}


def chain(links, parsed):
    """A model of such links one after the other, a mean over the image and a dense layer.

    Eight pools leave the image at least one pixel.
    """
    draw = np.random.default_rng(2)
    body, x = "first = ReduceMean<axes=[2,3]>(x) ", "x"
    for i, link in enumerate(links):
        body += f"size_{i} = Shape({x}) " if link == "shape" else ""
        body += f"t{i} = {LINKS[link].format(x=x, i=i)} "
        x = f"t{i}"
    body += f"""n = ReduceMean<axes=[3,2], keepdims=0>({x}) f = MatMul(n, k) g = Add(o2, f)
        y = BatchNormalization(g, o2, o2, o2, v2)"""
    size = {"w": (3, 3, 3, 3), "d": (3, 1, 2, 2), "c": (3, 1, 1), "k": (3, 2), "o2": (2,)}
    size |= dict.fromkeys("som", (3,))
    constants = {
        name: draw.standard_normal(shape).astype(np.float32) for name, shape in size.items()
    }
    constants |= {"v": draw.random(3, np.float32) + 0.2, "v2": draw.random(2, np.float32) + 0.2}
    pads = np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64)
    return parsed(f"g (float[N,3,9,10] x) => (float[N,2] y) {{ {body} }}", p=pads, **constants)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(sorted(LINKS)), min_size=1, max_size=8))
def test_onnx_runtime_computes_the_same_after_any_chain(parsed, same_function, operators, links):
    before = chain(links, parsed)
    after = prepare(before).graph
    left = operators(after)
    assert not left.keys() & {
        "BatchNormalization",
        "Identity",
        "Dropout",
        "ReduceMean",
        "MatMul",
        "Shape",
    }
    x = np.random.default_rng(3).standard_normal((2, 3, 9, 10)).astype(np.float32)
    same_function(before, after, {"x": x}, tolerance=3e-5)


def test_the_given_graph_stays_as_it_is_and_the_result_is_final(parsed):
    graph = chain(sorted(LINKS), parsed)
    digest = graph.digest()
    first = prepare(graph)
    assert graph.digest() == digest
    assert first.graph.digest() == prepare(graph).graph.digest()
    again = prepare(first.graph)
    assert again.changes == ()
    assert again.graph.digest() == first.graph.digest()


def test_each_change_is_a_sentence_of_the_report(parsed):
    links = ["Conv", "normalize", "Identity", "pad", "Conv", "Relu"]
    assert prepare(chain(links, parsed)).describe_changes() == (
        "removed 1 Identity node without effect",
        "fused 1 Pad node into the padding of the next nodes",
        "turned 1 ReduceMean node into GlobalAveragePool",
        "turned 1 MatMul node into Gemm",
        "folded 1 BatchNormalization node into convolutions",
        "folded 1 BatchNormalization node into Gemm nodes",
        "added a zero bias to 1 layer",
    )


def test_the_sample_model_computes_the_same(same_function, operators, rng):
    before = Graph.load(SAMPLE)
    after = prepare(before).graph
    assert "BatchNormalization" not in operators(after)
    (x,) = before.inputs
    shape = [d if isinstance(d, int) else 2 for d in x.shape]
    same_function(before, after, {x.name: rng.random(shape, np.float32)})
    assert after.metadata == before.metadata


def test_a_batch_of_minus_one_is_a_batch_that_varies(parsed, same_function, operators, rng):
    text = """g (float[N,2,3,3] x) => (float[N,18] y) {
        s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, rest) r = Relu(x) y = Reshape(r, t) }"""
    constants = {"zero": 0, "one": 1, "rest": -1}
    proto = parsed(
        text, **{name: np.array([v], np.int64) for name, v in constants.items()}
    ).to_proto()
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    before = Graph.from_proto(proto)
    after = prepare(before).graph
    assert operators(after) == {"Relu": 1, "Reshape": 1}
    same_function(before, after, {"x": rng.standard_normal((4, 2, 3, 3)).astype(np.float32)})


@pytest.mark.parametrize(
    ("element", "dtype", "linear", "left", "tolerance"),
    [
        ("float16", np.float16, "Conv<kernel_shape=[1,1]>(x, w4)", {"Conv": 2, "Add": 1}, 4e-3),
        ("double", np.float64, "Gemm(x, w2)", {"Gemm": 1, "Mul": 1, "Add": 2}, 1e-5),
    ],
)
def test_other_floating_point_types_compute_in_float32_and_keep_theirs_outside(
    element, dtype, linear, left, tolerance, parsed, same_function, operators, rng
):
    size = "N,2" if "Gemm" in linear else "N,2,4,4"
    text = f"""g ({element}[{size}] x) => ({element}[{size}] y) {{
        t = {linear} u = BatchNormalization(t, s, s, s, v)
        q = BatchNormalization(x, s, s, s, v) y = Add(u, q) }}"""
    weight = rng.standard_normal((2, 2)).astype(dtype)
    constants = {"w2": weight, "w4": weight[:, :, None, None], "v": np.array([0.5, 1.5], dtype)}
    before = parsed(text, s=rng.standard_normal(2).astype(dtype), **constants)
    after = prepare(before).graph
    assert operators(after) == left | {"Cast": 2}
    x = rng.standard_normal((3, 2) if "Gemm" in linear else (3, 2, 4, 4)).astype(dtype)
    same_function(before, after, {"x": x}, tolerance=tolerance)


OLDER = {
    "a view that stays": (move_views, "t = Conv(x, w) s = Squeeze(t, two) r = Relu(s) y = Exp(r)"),
    "views that cancel": (
        move_views,
        "t = Conv(x, w) s = Squeeze(t, two) r = Relu(s) u = Unsqueeze(r, two) y = Conv(u, w)",
    ),
    "a Where between shapes": (
        fold_where,
        "t = Conv(x, w) s = Shape(x) n = Slice(s, nil, one) c = Concat<axis=0>(n, less, less, less) "
        "same = Equal(c, less) u = Where(same, four, c) e = Expand(fill, u) m = Mul(t, e) y = Conv(m, w)",
    ),
    "a PReLU": (
        fuse_prelu,
        "t = Conv(x, w) p = Relu(t) n = Neg(t) r = Relu(n) m = Mul(r, slope) u = Sub(p, m) y = Conv(u, w)",
    ),
    "an Einsum": (
        rewrite_einsum_to_matmul,
        'r = Relu(x) e = Einsum<equation="nchw,wk->nchk">(r, k) y = Conv(e, w)',
    ),
    "inverse Transposes": (
        cancel_transposes,
        "t = Conv(x, w) a = Transpose<perm=[0,2,3,1]>(t) b = Tanh(a) c = Transpose<perm=[0,3,1,2]>(b) y = Conv(c, w)",
    ),
}


@pytest.mark.parametrize(("rewrite", "body"), OLDER.values(), ids=list(OLDER))
@pytest.mark.parametrize("of", ["plan", "stats"])
def test_what_was_made_before_a_rewrite_existed_still_applies(
    of, rewrite, body, parsed, rng, applies_without
):
    constants = {
        "w": rng.standard_normal((3, 3, 1, 1)).astype(np.float32),
        "k": rng.standard_normal((6, 6)).astype(np.float32),
        "slope": np.array([[[0.1]], [[0.2]], [[0.3]]], np.float32),
        "two": np.array([2]),
        "nil": np.array([0]),
        "one": np.array([1]),
        "less": np.array([-1]),
        "four": np.array([1, 1, 1, 1]),
        "fill": np.full((1, 1, 1, 6), 0.5, np.float32),
    }
    shape = "N,3,6" if body.endswith("Exp(r)") else "N,3,1,6"
    model = parsed(f"g (float[N,3,1,6] x) => (float[{shape}] y) {{ {body} }}", **constants)
    samples = [{"x": rng.standard_normal((1, 3, 1, 6)).astype(np.float32)} for _ in range(8)]
    applies_without(rewrite, model.to_proto(), samples, of)


def test_a_plan_applies_whose_dense_layers_allow_no_empty_axis(parsed, rng, monkeypatch):
    text = "g (float[N,T,4] x) => (float[N,T,3] y) { t = MatMul(x, w) u = Add(t, b) y = Relu(u) }"
    constants = {"w": rng.standard_normal((4, 3)), "b": rng.standard_normal(3)}
    model = parsed(text, **{k: v.astype(np.float32) for k, v in constants.items()}).to_proto()
    samples = [{"x": rng.standard_normal((1, 5, 4)).astype(np.float32)} for _ in range(4)]
    with monkeypatch.context() as before:
        older = tuple(OLDER_FORMS.get(r, r) for r in PREPARE if r not in NEWER)
        before.setattr("ptq.rewrite.prepare.prepare.PREPARE", older)
        old = ptq.quantize(model, samples, force=True)
    again = ptq.quantize(model, samples, plan=old.plan, force=True)
    assert again.graph.digest() == old.graph.digest()
    assert ptq.quantize(model, samples, force=True).plan.graph != old.plan.graph
