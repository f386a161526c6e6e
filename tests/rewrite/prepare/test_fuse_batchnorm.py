from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from ptq.model.node import get_constant
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fuse_batchnorm import fuse_batchnorm

LINEAR = {
    "Conv": ("Conv<pads=[1,1,1,1]>(x, w)", (6, 4, 3, 3)),
    "Conv with bias": ("Conv(x, w, bias)", (6, 4, 3, 3)),
    "grouped Conv": ("Conv<group=2>(x, w, bias)", (6, 2, 3, 3)),
    "depthwise Conv": ("Conv<group=4>(x, w)", (4, 1, 3, 3)),
    "ConvTranspose": ("ConvTranspose<strides=[2,2]>(x, w, bias)", (4, 5, 3, 3)),
    "grouped ConvTranspose": ("ConvTranspose<group=2>(x, w)", (4, 3, 3, 3)),
    "Gemm": ("Gemm<alpha=0.5, beta=2.0>(x, w, bias)", (4, 5)),
    "Gemm of a transposed weight": ("Gemm<transB=1>(x, w)", (5, 4)),
}


def channels(kind, shape):
    if kind == "Gemm":
        return shape[1]
    if "Transpose" in kind:
        return shape[1] * (2 if "grouped" in kind else 1)
    return shape[0]


def normalization(rng, n):
    scale, offset, mean = (rng.standard_normal(n).astype(np.float32) for _ in range(3))
    return {"s": scale, "o": offset, "m": mean, "v": rng.random(n, np.float32) + 0.1}


@pytest.mark.parametrize("kind", LINEAR)
def test_a_batch_normalization_vanishes_into(kind, parsed, same_function, operators, rng):
    call, shape = LINEAR[kind]
    n = channels(kind, shape)
    size, rank = ("2,4", "a,b") if "Gemm" in kind else ("2,4,7,5", "a,b,c,d")
    constants = {"w": rng.standard_normal(shape).astype(np.float32), **normalization(rng, n)}
    if "bias" in call:
        constants["bias"] = rng.standard_normal(n).astype(np.float32)
    text = f"g (float[{size}] x) => (float[{rank}] y) {{ t = {call} y = BatchNormalization(t, s, o, m, v) }}"
    before, after = parsed(text, **constants), parsed(text, **constants)
    assert [(c.kind, c.count, c.old) for c in fuse_batchnorm(after)] == [
        ("fuse_batchnorm", 1, "BatchNormalization")
    ]
    after.remove_unused()
    assert operators(after).total() == 1
    feeds = {"x": rng.standard_normal([int(d) for d in size.split(",")]).astype(np.float32)}
    same_function(before, after, feeds)


@pytest.mark.parametrize(("axis", "folds"), [(3, True), (-1, True), (2, True), (0, False)])
def test_arithmetic_behind_a_squeeze_behind_the_channels_vanishes_too(
    axis, folds, parsed, same_function, operators, rng
):
    """As tf2onnx writes a Conv of one axis."""
    size = {3: "2,2,9,1", -1: "2,2,9,1", 2: "2,2,1,9", 0: "1,2,9,3"}[axis]
    text = f"g (float[{size}] x) => (float[a,b,c] y) {{ t = Conv(x, w) s = Squeeze(t, k) y = Add(s, c) }}"
    shape = (3, 2, 1, 1)
    c = rng.standard_normal((3, 1) if folds else (9, 1)).astype(np.float32)
    arrays = {"w": rng.standard_normal(shape).astype(np.float32), "c": c, "k": np.array([axis])}
    before = parsed(text, **arrays).with_shapes()
    after = before.copy()
    assert bool(fuse_batchnorm(after)) == folds
    after.remove_unused()
    assert operators(after)["Add"] == (not folds)
    feeds = {"x": rng.standard_normal([int(d) for d in size.split(",")]).astype(np.float32)}
    same_function(before, after, feeds)


def test_arithmetic_behind_a_squeezed_conv_that_others_read_stays(parsed, operators, rng):
    text = (
        "g (float[2,2,9,1] x) => (float[a,b,c] y, float[a,b,c] z) "
        "{ t = Conv(x, w) s = Squeeze(t, k) y = Add(s, c) z = Relu(s) }"
    )
    w, c = (rng.standard_normal(s).astype(np.float32) for s in ((3, 2, 1, 1), (3, 1)))
    graph = parsed(text, w=w, c=c, k=np.array([3])).with_shapes()
    assert fuse_batchnorm(graph) == []
    assert operators(graph)["Add"] == 1


@pytest.mark.parametrize(
    "call", ["Add(t, c)", "Add(c, t)", "Sub(t, c)", "Sub(c, t)", "Mul(c, t)", "Div(t, c)"]
)
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 3, 1, 1), (1,)])
def test_arithmetic_with_a_constant_a_channel_vanishes_into_the_conv(
    call, shape, parsed, same_function, operators, rng
):
    text = f"g (float[2,2,5,5] x) => (float[2,3,3,3] y) {{ t = Conv(x, w) y = {call} }}"
    constants = {
        "w": rng.standard_normal((3, 2, 3, 3)).astype(np.float32),
        "c": rng.random(shape, np.float32) + 0.5,
    }
    before, after = parsed(text, **constants), parsed(text, **constants)
    fuse_batchnorm(after)
    assert operators(after) == {"Conv": 1}
    same_function(before, after, {"x": rng.standard_normal((2, 2, 5, 5)).astype(np.float32)})


@pytest.mark.parametrize(
    ("call", "shape"),
    [("Div(c, t)", (3, 1, 1)), ("Add(t, c)", (3,)), ("Mul(t, c)", (3, 3, 3)), ("Add(t, t)", (1,))],
)
def test_what_is_not_one_factor_and_offset_a_channel_stays(call, shape, parsed, operators, rng):
    text = f"g (float[2,2,5,5] x) => (float[2,3,3,3] y) {{ t = Conv(x, w) y = {call} }}"
    weight = rng.standard_normal((3, 2, 3, 3)).astype(np.float32)
    graph = parsed(text, w=weight, c=np.ones(shape, np.float32))
    assert fuse_batchnorm(graph) == []
    assert operators(graph).total() == 2


def test_the_folded_weight_is_the_float64_result_rounded_once(parsed, rng):
    text = "g (float[1,2,3,3] x) => (float[1,3,3,3] y) { t = Conv(x, w, b) y = BatchNormalization(t, s, o, m, v) }"
    weight = rng.standard_normal((3, 2, 1, 1)).astype(np.float32)
    bias = rng.standard_normal(3).astype(np.float32)
    p = normalization(rng, 3)
    graph = parsed(text, w=weight, b=bias, **p)
    fuse_batchnorm(graph)
    wide = {name: array.astype(np.float64) for name, array in p.items()}
    factor = wide["s"] / np.sqrt(wide["v"] + np.float64(np.float32(1e-5)))
    (conv,) = graph.nodes
    expected = (weight * factor[:, None, None, None]).astype(np.float32)
    np.testing.assert_array_max_ulp(get_constant(conv.inputs[1]), expected, maxulp=1)
    offset = ((bias - wide["m"]) * factor + wide["o"]).astype(np.float32)
    np.testing.assert_allclose(get_constant(conv.inputs[2]), offset, rtol=1e-6)
    assert [v.name for v in conv.inputs] == ["x", "w", "b"]
    assert graph.outputs[0].name == "y"


@pytest.mark.parametrize(
    "tail",
    [
        "y = BatchNormalization(t, s, o, m, v)",
        "y = Mul(t, c)",
        "y = Add(t, c)",
    ],
)
def test_folding_agrees_with_the_basic_optimizer_of_onnx_runtime(tail, parsed, rng, tmp_path):
    text = f"g (float[1,2,4,4] x) => (float[1,3,4,4] y) {{ t = Conv(x, w, b) {tail} }}"
    graph = parsed(
        text,
        w=rng.standard_normal((3, 2, 1, 1)).astype(np.float32),
        b=rng.standard_normal(3).astype(np.float32),
        c=rng.standard_normal((3, 1, 1)).astype(np.float32),
        **normalization(rng, 3),
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "basic.onnx")
    onnxruntime.InferenceSession(graph.to_bytes(), options, providers=["CPUExecutionProvider"])
    proto = onnx.load(tmp_path / "basic.onnx")
    arrays = {i.name: onnx.numpy_helper.to_array(i) for i in proto.graph.initializer}
    fuse_batchnorm(graph)
    assert [n.op_type for n in graph.nodes] == [n.op_type for n in proto.graph.node] == ["Conv"]
    for ours, theirs in zip(graph.nodes[0].inputs[1:], proto.graph.node[0].input[1:], strict=True):
        np.testing.assert_allclose(get_constant(ours), arrays[theirs], rtol=2e-5, atol=1e-6)


def test_two_convs_that_share_a_weight_get_their_own_when_their_normalizations_differ(
    parsed, same_function, operators, rng
):
    text = """g (float[1,3,4,4] x) => (float[1,3,4,4] y) {
        t = Conv(x, w) n = BatchNormalization(t, s, o, m, v)
        r = Relu(n) u = Conv(r, w) y = BatchNormalization(u, o, s, s, v) }"""
    constants = {
        "w": rng.standard_normal((3, 3, 1, 1)).astype(np.float32),
        **normalization(rng, 3),
    }
    before, after = parsed(text, **constants), parsed(text, **constants)
    fuse_batchnorm(after)
    assert operators(after) == {"Conv": 2, "Relu": 1}
    first, _, second = after.nodes
    assert {v.name for v in (first.inputs[1], second.inputs[1])} == {"w", "w_1"}
    same_function(before, after, {"x": rng.standard_normal((1, 3, 4, 4)).astype(np.float32)})


@pytest.mark.parametrize(
    "text",
    [
        """g (float[1,3,4,4] x) => (float[1,3,4,4] y) {
            t = Conv(x, w) n = BatchNormalization(t, s, o, m, v) y = Add(n, t) }""",
        """g (float[1,3,4,4] x) => (float[1,3,4,4] y, float[1,3,4,4] t) {
            t = Conv(x, w) y = BatchNormalization(t, s, o, m, v) }""",
        """g (float[1,3,4,4] x) => (float[1,3,4,4] y) {
            t = Relu(x) y = BatchNormalization(t, s, o, m, v) }""",
    ],
    ids=["two readers", "graph output", "no linear node"],
)
def test_a_normalization_that_cannot_fold_becomes_a_depthwise_convolution(
    text, parsed, same_function, operators, rng
):
    constants = {
        "w": rng.standard_normal((3, 3, 1, 1)).astype(np.float32),
        **normalization(rng, 3),
    }
    before = parsed(text, **constants)
    after = parsed(text, **constants).with_shapes()
    assert fuse_batchnorm(after) == [
        Change("replace_batchnorm", 1, old="BatchNormalization", new="a depthwise Conv")
    ]
    assert operators(after)["BatchNormalization"] == 0
    assert operators(after)["Conv"] == operators(before)["Conv"] + 1
    same_function(before, after, {"x": rng.standard_normal((1, 3, 4, 4)).astype(np.float32)})


def test_one_without_an_axis_to_convolve_becomes_mul_and_add(parsed, same_function, operators, rng):
    text = """g (float[2,3] x) => (float[2,3] y) {
            t = Relu(x) y = BatchNormalization(t, s, o, m, v) }"""
    constants = normalization(rng, 3)
    before, after = parsed(text, **constants), parsed(text, **constants).with_shapes()
    assert fuse_batchnorm(after) == [
        Change("replace_batchnorm", 1, old="BatchNormalization", new="Mul and Add")
    ]
    assert operators(after) == {"Relu": 1, "Mul": 1, "Add": 1}
    same_function(before, after, {"x": rng.standard_normal((2, 3)).astype(np.float32)})


def test_a_conv_that_a_sub_graph_reads_too_keeps_its_output(parsed, operators, same_function, rng):
    text = """g (float[1,3,4,4] x, bool c) => (float[1,3,4,4] y) {
        t = Conv(x, w) n = BatchNormalization(t, s, o, m, v)
        i = If (c) <then_branch = a () => (float[1,3,4,4] p) { p = Neg(t) },
                    else_branch = b () => (float[1,3,4,4] q) { q = Abs(t) }>
        y = Add(n, i) }"""
    constants = {
        "w": rng.standard_normal((3, 3, 1, 1)).astype(np.float32),
        **normalization(rng, 3),
    }
    before, after = parsed(text, **constants), parsed(text, **constants).with_shapes()
    fuse_batchnorm(after)
    assert operators(after)["Conv"] == 2
    feeds = {"x": rng.standard_normal((1, 3, 4, 4)).astype(np.float32), "c": np.array(True)}
    same_function(before, after, feeds)


def test_the_shift_of_a_hard_sigmoid_in_pieces_becomes_a_bias(
    parsed, operators, same_function, rng
):
    text = """g (float[1,3,4,4] x) => (float[1,3,4,4] y) {
        t = Conv(x, w) a = Add(t, three) k = Clip(a, zero, six) y = Div(k, six) }"""
    scalars = {"three": 3.0, "zero": 0.0, "six": 6.0}
    constants = {name: np.float32(value) for name, value in scalars.items()}
    before = parsed(text, w=rng.standard_normal((3, 3, 1, 1)).astype(np.float32), **constants)
    after = before.copy()
    assert fuse_batchnorm(after) == [Change("fuse_batchnorm", 1, old="Add", new="convolutions")]
    assert operators(after) == {"Conv": 1, "Clip": 1, "Div": 1}
    same_function(before, after, {"x": rng.standard_normal((1, 3, 4, 4)).astype(np.float32)})


def test_a_float16_weight_that_would_overflow_is_not_folded(parsed, operators):
    text = "g (float16[1,1,2,2] x) => (float16[1,1,2,2] y) { t = Conv(x, w) y = Mul(t, c) }"
    weight, large = np.full((1, 1, 1, 1), 300, np.float16), np.full((1, 1, 1), 300, np.float16)
    assert fuse_batchnorm(parsed(text, w=weight, c=large)) == []
    small = parsed(text, w=weight, c=np.full((1, 1, 1), 2, np.float16))
    fuse_batchnorm(small)
    assert get_constant(small.nodes[0].inputs[1]).dtype == np.float16
    assert operators(small) == {"Conv": 1}


@pytest.mark.parametrize(
    "tail",
    [
        "u, p, q = BatchNormalization<training_mode=1>(t, s, o, m, v) y = Add(u, p)",
        "y = BatchNormalization<epsilon=-1.0>(t, s, o, m, v)",
    ],
    ids=["in training", "of a negative variance"],
)
def test_a_normalization_stays_as_it_is(tail, parsed, operators, rng):
    text = f"g (float[3,3] x) => (float[3,3] y) {{ t = Gemm(x, w) {tail} }}"
    p = normalization(rng, 3) | {"v": np.full(3, 0.5, np.float32)}
    graph = parsed(text, w=rng.standard_normal((3, 3)).astype(np.float32), **p)
    assert fuse_batchnorm(graph) == []
    assert operators(graph)["BatchNormalization"] == 1
