"""Oracle: the float model in ONNX Runtime before and after, and its int8 form with one scale for each weight."""

from __future__ import annotations

import numpy as np
import pytest
from networks import sqnr_db

import ptq
from ptq.calibration.channel_spreads import SpreadCollector
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.model.node import get_constant
from ptq.model.session.session import Session
from ptq.optimization.equalization.layer_pair_factors import balance_layer_pairs, list_pair_tensors
from ptq.rewrite.edit import set_attributes
from ptq.rewrite.equalize.cross_layer_equalization import equalize_layers
from ptq.rewrite.equalize.layer_pairs import find_layer_pairs

SCALES = np.float32(10.0) ** np.linspace(-1, 1, 8, dtype=np.float32)


def model(parsed, rng, between, second="depthwise", scale=SCALES, bias=0.0, **constants):
    """A convolution to 8 channels of very different size, what stands between, and a second layer."""
    weights = {
        "depthwise": ("Conv<group=8>", (8, 1, 3, 3)),
        "full": ("Conv", (5, 8, 3, 3)),
        "grouped": ("Conv<group=2>", (6, 4, 1, 1)),
        "gemm": ("Gemm<transB=1>", (4, 8)),
        "gemm of columns": ("Gemm", (8, 4)),
        "gemm of images": ("Gemm", (8 * 36, 4)),
    }
    op, shape = weights[second]
    w1 = rng.standard_normal((8, 3, 3, 3)).astype(np.float32) * 0.3
    text = f"""g (float[N,3,6,6] x) => (float y) {{
        a = Conv<pads=[1,1,1,1]>(x, w1, b1)
        {between}
        y = {op}(z, w2, b2) }}"""
    w2 = rng.standard_normal(shape).astype(np.float32)
    outputs = shape[1] if second.startswith("gemm of") else shape[0]
    return parsed(
        text,
        w1=w1 * scale[:, None, None, None],
        b1=(rng.standard_normal(8).astype(np.float32) + np.float32(bias)) * scale,
        w2=w2,
        b2=rng.standard_normal(outputs).astype(np.float32),
        **constants,
    ).with_shapes()


def seen_in(graph, x):
    """The extremes of the channels of the pairs' outputs."""
    exposed, names = graph.copy(), [pair.output for pair in find_layer_pairs(graph)]
    exposed.add_outputs(names)
    found = {}
    for name, array in zip(names, Session(exposed).run({"x": x}, names), strict=True):
        channels = np.moveaxis(array, 1, 0).reshape(array.shape[1], -1)
        found[name] = channels.min(axis=1), channels.max(axis=1)
    return found


def equalize(graph, x):
    """The graph with the factors that these samples give, and the number of pairs that were scaled."""
    samples = [Sample(str(k), {"x": one[None]}) for k, one in enumerate(x)]
    spreads = SpreadCollector(graph, list_pair_tensors(graph), RunOptions(threads=1)).collect(
        samples
    )
    factors = balance_layer_pairs(graph, [spreads])
    least = {name: spread.least.astype(np.float64) for name, spread in spreads.items()}
    return equalize_layers(graph, factors, least), len(factors)


def int8_sqnr(graph, x):
    """The SQNR of the outputs in ONNX Runtime with one scale for each weight."""
    options = {"per_tensor": True, "equalize": False, "rounding": "nearest", "method": "minmax"}
    quantized = ptq.quantize(graph.to_proto(), {"x": x}, threads=1, **options)
    return sqnr_db(Session(graph).run({"x": x})[0], Session(quantized.graph).run({"x": x})[0])


POOLED = "r = Relu(a)  p = GlobalAveragePool(r)  z = Flatten(p)"


@pytest.mark.parametrize(
    ("between", "second"),
    [
        ("z = Relu(a)", "depthwise"),
        ("z = Relu(a)", "full"),
        ("z = Relu(a)", "grouped"),
        ("z = LeakyRelu<alpha=0.2>(a)", "full"),
        ("z = PRelu(a, slope)", "full"),
        ("z = MaxPool<kernel_shape=[2,2]>(a)", "depthwise"),
        ("z = AveragePool<kernel_shape=[2,2], pads=[1,1,1,1]>(a)", "depthwise"),
        ("z = Clip(a, low)", "full"),
        (POOLED, "gemm"),
        (POOLED, "gemm of columns"),
        ("r = Relu(a)  z = Flatten(r)", "gemm of images"),
    ],
)
def test_channels_that_differ_a_hundred_times_are_equalized_and_the_function_stays(
    between, second, parsed, same_function, rng
):
    slope = rng.uniform(-0.5, 0.5, (8, 1, 1)).astype(np.float32)
    graph = model(parsed, rng, between, second, slope=slope, low=np.float32(0))
    x = rng.standard_normal((4, 3, 6, 6)).astype(np.float32)
    after, count = equalize(graph, x)
    assert count == 1
    same_function(graph, after, {"x": rng.standard_normal((4, 3, 6, 6)).astype(np.float32)})
    assert int8_sqnr(after, x) > int8_sqnr(graph, x) + 0.5


def test_three_layers_are_solved_together(parsed, same_function, rng):
    text = """g (float[N,4,6,6] x) => (float[N,3,6,6] y) {
        a = Conv(x, w1, b1)  r = Relu(a)
        d = Conv<group=16, pads=[1,1,1,1]>(r, w2, b2)  s = Relu(d)
        y = Conv(s, w3) }"""
    scale = 10 ** rng.uniform(-1, 1, (3, 16)).astype(np.float32)
    w1, w2, w3 = (rng.standard_normal(s) for s in ((16, 4, 1, 1), (16, 1, 3, 3), (3, 16, 1, 1)))
    graph = parsed(
        text,
        w1=(w1 * scale[0, :, None, None, None]).astype(np.float32),
        w2=(w2 * scale[1, :, None, None, None]).astype(np.float32),
        w3=(w3 * scale[2, :, None, None]).astype(np.float32),
        b1=rng.standard_normal(16).astype(np.float32),
        b2=rng.standard_normal(16).astype(np.float32),
    ).with_shapes()
    x = rng.standard_normal((2, 4, 6, 6)).astype(np.float32)
    after, count = equalize(graph, x)
    assert count == 2
    same_function(graph, after, {"x": x})
    assert int8_sqnr(after, x) > int8_sqnr(graph, x) + 6


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.0, 1.0), (-6.0, 0.0)])
def test_channels_that_a_clip_has_cut_stay_and_the_others_stay_within(
    low, high, parsed, same_function, rng
):
    bounds = {"low": np.float32(low), "high": np.float32(high)}
    graph = model(parsed, rng, "z = Clip(a, low, high)", "full", **bounds)
    x = rng.standard_normal((4, 3, 6, 6)).astype(np.float32)
    seen = seen_in(graph, x)
    after, count = equalize(graph, x)
    assert count == 1
    same_function(graph, after, {"x": x})
    least, greatest = seen["a"]
    margin = 1.5  # channels this near to a bound may be cut on other samples
    cut = ((margin * least <= low) & (low != 0)) | ((margin * greatest >= high) & (high != 0))
    assert 0 < cut.sum() < 8
    before, now = (get_constant(find_layer_pairs(g)[0].first.inputs[1]) for g in (graph, after))
    changed = np.any(before != now, axis=(1, 2, 3))
    assert not changed[cut].any()
    assert changed[~cut].all()


@pytest.mark.parametrize(
    "between",
    [
        "z = Relu(a)  o = Add(a, a)",
        "z = Relu(a)  o = Sigmoid(z)",
        "z = Sigmoid(a)",
        "z = Clip(a, one, two)",
        "r = Relu(a)  z = Add(r, one)",
        "r = LeakyRelu<alpha=-3.0>(a)  z = Clip(r, minus, one)",
    ],
)
def test_what_others_read_or_what_is_not_homogeneous_stays(between, parsed, rng):
    numbers = {"one": np.float32(1), "two": np.float32(2), "minus": np.float32(-1)}
    graph = model(parsed, rng, between, "full", **numbers)
    if "o =" in between:
        [other] = [v for n in graph.nodes for v in n.outputs if v.name == "o"]
        graph = with_output(graph, other.name)
    assert find_layer_pairs(graph) == []


def with_output(graph, name):
    graph = graph.copy()
    graph.add_outputs([name])
    return graph


def test_dead_channels_are_left_alone(parsed, same_function, rng):
    scale = SCALES.copy()
    scale[3] = 0
    graph = model(parsed, rng, "z = Relu(a)", "full", scale=scale)
    x = rng.standard_normal((2, 3, 6, 6)).astype(np.float32)
    after, count = equalize(graph, x)
    assert count == 1
    same_function(graph, after, {"x": x})


def test_what_all_values_exceed_moves_into_the_next_bias(parsed, same_function, rng):
    graph = model(parsed, rng, "z = Relu(a)", "grouped", bias=20.0)
    x = rng.standard_normal((4, 3, 6, 6)).astype(np.float32)
    after, _ = equalize(graph, x)
    same_function(graph, after, {"x": x}, tolerance=1e-4)
    (least, _), (new_least, new_greatest) = seen_in(graph, x)["a"], seen_in(after, x)["a"]
    assert (least > 0).all()
    np.testing.assert_allclose(new_least / new_greatest, 0, atol=1e-4)


def test_a_layer_that_pads_takes_over_no_constant(parsed, same_function, rng):
    graph = model(parsed, rng, "z = Relu(a)", "depthwise", bias=20.0)
    for node in graph.nodes:
        if node.outputs[0].name == "y":
            set_attributes(node, pads=[1, 1, 1, 1])
    x = rng.standard_normal((4, 3, 6, 6)).astype(np.float32)
    after, count = equalize(graph.with_shapes(), x)
    assert count == 1
    same_function(graph, after, {"x": x})
    assert (seen_in(after, x)["a"][0] > 0).all()
