"""Oracle: the float model in ONNX Runtime before and after its channels are multiplied by random factors."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.core.errors import PlanError
from ptq.model.node import get_constant
from ptq.rewrite.equalize.channel_groups import FIXED, group_channels
from ptq.rewrite.equalize.scale_channels import scale_channels, to_group_factors, to_tensor_factors

CROP = 'Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize">'
BETWEEN = {
    "a rectifier": "z = Relu(a)",
    "slopes": "z = PRelu(a, slope)",
    "a pool": "p = MaxPool<kernel_shape=[2,2]>(a)  z = LeakyRelu(p)",
    "zeros around": "z = Pad(a, around)",
    "a larger image": "z = Resize<mode=\"nearest\">(a, none, twice)",
    "a crop with zeros around": f"z = {CROP}(a, region, thrice)",
    "a bound": "z = Clip(a, zero)",
    "a residual": "r = Relu(a)  b = Conv(r, square, offset)  s = Add(a, b)  z = Relu(s)",
    "a summand": "z = Add(a, offset_of_channels)",
    "one summand": "z = Add(shift, a)",
    "a factor": "z = Mul(a, offset_of_channels)",
    "joined": "b = Conv(x, other, offset)  j = Concat<axis=1>(a, b)  z = Conv(j, halves)",
    "joined from the end": "b = Conv(x, other, offset)  j = Concat<axis=-3>(b, a)  z = Conv(j, halves)",
    "a gate": "p = GlobalAveragePool(a)  q = Conv(p, square)  g = Sigmoid(q)  z = Mul(a, g)",
    "a gate before": "p = GlobalAveragePool(a)  q = Conv(p, square)  g = Sigmoid(q)  z = Mul(g, a)",
    "a mean": "z = ReduceMean<axes=[2, 3]>(a)",
}  # fmt: skip


def model(parsed, rng, between, tail="y = Conv(z, last)"):
    """A convolution to 8 channels, what stands between, and what reads it."""

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return parsed(
        f"""g (float[N,3,6,6] x) => (float y) {{
            a = Conv<pads=[1,1,1,1]>(x, first, offset)
            {between}
            {tail} }}""",
        first=normal(8, 3, 3, 3),
        other=normal(8, 3, 1, 1),
        square=normal(8, 8, 1, 1) / 3,
        halves=normal(8, 16, 1, 1),
        last=normal(4, 8, 1, 1),
        deep=normal(8, 1, 3, 3),
        matrix=normal(8 * 36, 5),
        offset=normal(8),
        offset_of_channels=normal(8, 1, 1),
        shift=np.float32(0.7),
        zero=np.float32(0),
        slope=normal(8, 1, 1),
        around=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        none=np.zeros(0, np.float32),
        thrice=np.array([1, 1, 3, 3], np.float32),
        region=np.array([0, 0, -0.2, 0, 1, 1, 1.3, 1.3], np.float32),
        twice=np.array([1, 1, 2, 2], np.float32),
    ).with_shapes()


def random_factors(found, rng):
    factors = 4 ** rng.uniform(-1, 1, found.group_count)
    factors[FIXED] = 1
    return factors


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_channels_take_any_factors_and_the_function_stays(between, parsed, same_function, rng):
    graph = model(parsed, rng, between)
    found = group_channels(graph)
    assert "a" in found.groups
    assert len(found.readers) > 0
    after = scale_channels(graph, random_factors(found, rng))
    before, now = (get_constant(g.nodes[0].inputs[1]) for g in (graph, after))
    assert np.abs(np.log2(np.abs(now / before).max(axis=(1, 2, 3)))).max() > 0.5
    same_function(graph, after, {"x": rng.standard_normal((2, 3, 6, 6)).astype(np.float32)})


@pytest.mark.parametrize(
    "tail",
    [
        "y = Conv<group=8>(z, deep)",
        "f = Flatten(z)  y = Gemm(f, matrix)",
        "f = Reshape(z, wide)  y = Gemm(f, matrix)",
    ],
)
def test_layers_that_read_each_channel_separately_or_flattened(tail, parsed, same_function, rng):
    graph = model(parsed, rng, "z = Relu(a)  wide = Constant<value_ints=[-1, 288]>()", tail)
    after = scale_channels(graph, random_factors(group_channels(graph), rng))
    same_function(graph, after, {"x": rng.standard_normal((1, 3, 6, 6)).astype(np.float32)})


def test_a_residual_stream_has_one_factor_a_channel(parsed, rng):
    found = group_channels(model(parsed, rng, BETWEEN["a residual"]))
    np.testing.assert_array_equal(found.groups["a"], found.groups["s"])
    np.testing.assert_array_equal(found.groups["a"], found.groups["b"])
    assert len(set(found.groups["a"].tolist())) == 8


@pytest.mark.parametrize(
    "between",
    [
        "z = Sigmoid(a)",
        "s = Sin(a)  z = Relu(a)",
        "z = Mul(a, a)",
        "z = Clip(a, shift)",
        "t = Transpose<perm=[0, 2, 1, 3]>(a)  z = Transpose<perm=[0, 2, 1, 3]>(t)",
        "t = ReduceSum(a)  z = Add(a, t)",
        "t = Softmax<axis=1>(a)  z = Add(a, t)",
        "t = ReduceMean<axes=[1]>(a)  z = Mul(a, t)",
        f"z = {CROP.replace('>', ', extrapolation_value=5.0>')}(a, region, thrice)",
    ],
)
def test_what_is_not_homogeneous_keeps_channels_as_they_are(between, parsed, rng):
    assert "a" not in group_channels(model(parsed, rng, between)).groups


def test_outputs_and_what_inner_graphs_read_stay_as_they_are(parsed, rng):
    graph = model(parsed, rng, "z = Relu(a)", "y = Identity(z)")
    assert not group_channels(graph).groups
    inner = """g (float[N,3,6,6] x, bool c) => (float y) {
        a = Conv(x, first)  z = Conv(a, last)
        y = If(c) <then_branch = t () => (float u) { u = Relu(a) },
                   else_branch = e () => (float v) { v = Relu(z) }> }"""
    first, last = rng.standard_normal((8, 3, 1, 1)), rng.standard_normal((8, 8, 1, 1))
    captured = parsed(inner, first=first.astype(np.float32), last=last.astype(np.float32))
    assert not group_channels(captured.with_shapes()).groups


def test_factors_survive_as_those_of_layers_outputs(parsed, rng):
    found = group_channels(model(parsed, rng, BETWEEN["joined"]))
    factors = random_factors(found, rng)
    np.testing.assert_array_equal(
        to_group_factors(found, to_tensor_factors(found, factors)), factors
    )


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({"nowhere": (2.0,) * 8}, "nowhere"),
        ({"a": (2.0,) * 7}, "7 channels"),
        ({"a": (2.0,) * 7 + (-1.0,)}, "not positive"),
        ({"a": (2.0,) * 7 + (float("nan"),)}, "not positive"),
        ({"a": (2.0,) * 8, "b": (3.0,) * 8}, "differ for channels"),
    ],
)
def test_factors_of_another_model_are_refused(factors, said, parsed, rng):
    with pytest.raises(PlanError, match=said):
        to_group_factors(group_channels(model(parsed, rng, BETWEEN["a residual"])), factors)
