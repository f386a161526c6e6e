"""Oracle: two layers in float64, activations and weights rounded, on samples that no factor was chosen on."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ptq.model.graph import Graph
from ptq.model.node import get_constant
from ptq.observers.channel_spread import ChannelSpread
from ptq.optimization.equalization.equalization_factors import compute_equalization_factors
from ptq.rewrite.edit import set_constant
from ptq.rewrite.equalize.channel_groups import FIXED, group_channels
from ptq.rewrite.equalize.scale_channels import scale_channels

CHANNELS, ROWS = 24, 300
UNLIKE = 2.0 ** np.random.default_rng(3).uniform(-3, 2, CHANNELS)


def two_layers(
    groups: int, bound: float | None = None, between: str = "Relu", power: float = 1.0
) -> Graph:
    """Two layers of one place, the first to channels of different size, a rectifier or such between."""
    rng = np.random.default_rng(4)
    first = rng.normal(size=(CHANNELS, 6, 1, 1)) * UNLIKE[:, None, None, None] ** power / 6
    second = rng.normal(size=(CHANNELS, CHANNELS // groups, 1, 1))
    inputs = ["c"] if bound is None else ["c", "zero", "bound"]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], name="first"),
        helper.make_node(between if bound is None else "Clip", inputs, ["r"], name="r"),
        helper.make_node("Conv", ["r", "w2"], ["y"], name="second", group=groups),
    ]
    arrays = {"w1": first, "w2": second, "zero": np.zeros(()), "bound": np.array(bound or 0.0)}
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6, 1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CHANNELS, 1, 1])],
        [numpy_helper.from_array(a.astype(np.float32), k) for k, a in arrays.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=8)
    onnx.checker.check_model(proto)
    return Graph.from_proto(proto).with_shapes()


def samples(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, 6))


def hidden(graph: Graph, x: np.ndarray, bound: float = np.inf) -> np.ndarray:
    weight = np.asarray(get_constant(graph.nodes[0].inputs[1]), np.float64)
    return np.clip(x @ weight.reshape(CHANNELS, -1).T, 0, bound)


def decibels(before: Graph, after: Graph, groups: int, bound: float = np.inf) -> float:
    """Signal over error of the outputs, activations rounded to 8 bits and weights to 8 bits a sum."""

    def sums(graph: Graph, rounded: bool) -> np.ndarray:
        h = hidden(graph, samples(9), bound)
        w = np.asarray(get_constant(graph.nodes[2].inputs[1]), np.float64).reshape(CHANNELS, -1)
        if rounded:
            steps = np.abs(w).max(axis=1, keepdims=True) / 127
            h, w = np.rint(h / h.max() * 255) * h.max() / 255, np.rint(w / steps) * steps
        return np.einsum(
            "ngi,goi->ngo", h.reshape(ROWS, groups, -1), w.reshape(groups, -1, w.shape[1])
        )

    truth = sums(before, rounded=False)
    return float(10 * np.log10(np.square(truth).sum() / np.square(truth - sums(after, True)).sum()))


def spread_of(graph: Graph, bound: float = np.inf) -> dict[str, ChannelSpread]:
    return {"r": ChannelSpread.from_array(hidden(graph, samples(8), bound).astype(np.float32))}


@pytest.mark.parametrize(("groups", "gain"), [(CHANNELS, 3.0), (1, 0.0)])
def test_equalized_channels_lose_less(groups: int, gain: float) -> None:
    graph = two_layers(groups)
    found = group_channels(graph)
    factors = compute_equalization_factors(found, [spread_of(graph)], through_clips=True)
    assert factors[FIXED] == 1
    after = scale_channels(graph, factors)
    assert decibels(graph, after, groups) > decibels(graph, graph, groups) + gain
    noisy = {
        "r": ChannelSpread.from_array(
            hidden(graph, samples(8)).astype(np.float32) * np.float32(1 + 1e-6)
        )
    }
    np.testing.assert_array_equal(
        compute_equalization_factors(found, [noisy], through_clips=True), factors
    )


def test_a_layer_that_pays_nothing_gets_channels_that_all_fill_the_range() -> None:
    graph = two_layers(CHANNELS)
    spread = spread_of(graph)
    after = scale_channels(
        graph, compute_equalization_factors(group_channels(graph), [spread], through_clips=False)
    )
    reach = hidden(after, samples(8)).max(axis=0)
    waking = UNLIKE.max() / UNLIKE < 8  # smaller ones count as larger: other samples may wake them
    assert reach[waking].max() / reach[waking].min() < 1.3
    assert spread["r"].greatest[waking].max() / spread["r"].greatest[waking].min() > 4


def test_channels_alike_are_left_alone() -> None:
    graph = two_layers(1)
    set_constant(graph, graph.nodes[2], 1, np.ones((CHANNELS, CHANNELS, 1, 1), np.float32), "w")
    spread = {"r": ChannelSpread.from_array(np.ones((4, CHANNELS), np.float32))}
    assert (
        compute_equalization_factors(group_channels(graph), [spread], through_clips=True) == 1
    ).all()


def test_channels_that_a_clip_bounds_stay_within_unless_they_must_stay() -> None:
    bound = 1.0
    graph = two_layers(CHANNELS, bound)
    found, spread = group_channels(graph), spread_of(graph, bound)
    assert (compute_equalization_factors(found, [spread], through_clips=False) == 1).all()
    factors = compute_equalization_factors(found, [spread], through_clips=True)[found.groups["r"]]
    greatest = spread["r"].greatest
    near = greatest * 1.5 >= bound
    assert near.any()
    assert (factors[near] == 1).all()
    assert (factors[~near] != 1).any()
    assert (factors[~near] * greatest[~near] <= bound / 1.5 + 1e-6).all()
    x = samples(8)
    np.testing.assert_allclose(
        hidden(
            scale_channels(
                graph, compute_equalization_factors(found, [spread], through_clips=True)
            ),
            x,
            bound,
        ),
        hidden(graph, x, bound) * factors,
        atol=1e-5,
    )


def test_what_was_never_seen_stays() -> None:
    graph = two_layers(1)
    assert (
        compute_equalization_factors(group_channels(graph), [{}], through_clips=True) == 1
    ).all()


@pytest.mark.parametrize(("groups", "power", "pays"), [(CHANNELS, 1.0, True), (1, 0.2, False)])
def test_what_takes_a_gate_some_time_must_halve_the_error(
    groups: int, power: float, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptq.rewrite.equalize.per_channel_ops.MIN_CHANNELS", CHANNELS)
    gated, plain = (two_layers(groups, between=op, power=power) for op in ("HardSwish", "Relu"))
    assert group_channels(gated).gated_nodes
    spread = spread_of(plain)
    factors = compute_equalization_factors(group_channels(gated), [spread], through_clips=False)
    assert (factors != 1).any() == pays
    assert (
        compute_equalization_factors(group_channels(plain), [spread], through_clips=False) != 1
    ).any()


@pytest.mark.parametrize(("power", "pays"), [(1.0, True), (0.1, False)])
def test_channels_that_float_alone_reads_all_fill_the_range_where_that_is_worth_time(
    power: float, pays: bool
) -> None:
    graph = two_layers(1, between="Sigmoid")
    found = group_channels(graph, boundaries={"c": ("first",)})
    assert not group_channels(graph).groups
    assert not found.readers
    reach = UNLIKE**power
    seen = {"c": ChannelSpread.from_array(np.stack([-reach, reach]).astype(np.float32))}
    factors = compute_equalization_factors(found, [seen], through_clips=False)
    assert (factors != 1).any() == pays
    waking = reach.max() / reach < 8
    scaled = (reach * factors[found.groups["c"]])[waking]
    assert scaled.max() / scaled.min() < 1.5
