"""Statistics of a model's tensors; float64 sums over ONNX Runtime's own floats are the oracle."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import pytest
from cases import CASES
from networks import build_network, gaussian_array, random_feeds, to_samples
from parts import CONV, SAME, WB, V

import ptq
from ptq.calibration.calibration import list_tensors_to_collect
from ptq.calibration.collect import BatchBuffers, RunningStatistics, observe, start_statistics
from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions
from ptq.kernels import thread_pool
from ptq.model.graph import Graph
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.model.session.session import Session
from ptq.observers.calibration_file import Calibration
from ptq.rewrite.emit.bias_correction import list_channel_axes
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.assign import list_tensors_to_observe

MODEL = build_network(
    CONV + f"r = Relu(c)\nd = Conv{SAME}(r, v)\na = Add(d, r)\ny = Sigmoid(a)",
    {"x": ("n", 3, 8, 8)},
    v=V,
    **WB,
)
FEEDS = random_feeds(MODEL, 12)
GRAPH = prepare(Graph.from_proto(MODEL)).graph


def observed(these: list[dict[str, np.ndarray]]) -> Calibration:
    wanted = CollectedTensors(list_tensors_to_observe(GRAPH), list_channel_axes(GRAPH))
    return observe(GRAPH, to_samples(these), wanted, run=RunOptions(threads=1))


def test_every_value_is_counted_and_the_extremes_are_exact() -> None:
    calibration = observed(FEEDS)
    exposed = GRAPH.copy()
    exposed.add_outputs(calibration.tensors)
    session = Session(exposed, threads=1)
    computed = [n for n in calibration.tensors if n != "x"]
    runs = [dict(zip(computed, session.run(f, computed), strict=True)) | f for f in FEEDS]
    assert calibration.samples == len(FEEDS)
    assert set(calibration.tensors) == {"x", "r", "d", "a", "y"}
    for name, stats in calibration.tensors.items():
        values = np.concatenate([run[name].ravel() for run in runs])
        assert stats.count == values.size
        assert (stats.min, stats.max) == (values.min(), values.max())


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_samples_leaves_no_trace(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(FEEDS))
    assert observed([FEEDS[i] for i in order]).to_bytes() == observed(FEEDS).to_bytes()


def test_three_shards_merge_to_the_same_bytes() -> None:
    whole = observed(FEEDS).to_bytes()
    for order in itertools.permutations(range(3)):
        first, second, third = (observed(FEEDS[k::3]) for k in order)
        assert first.merge(second).merge(third).to_bytes() == whole


def test_the_verb_s_shards_merge_to_the_whole_too() -> None:
    data = {"x": np.concatenate([f["x"] for f in FEEDS])}
    whole = ptq.calibrate(MODEL, data, threads=1)
    parts = [ptq.calibrate(MODEL, data, shard=(k, 3), threads=1) for k in range(3)]
    assert parts[0].merge(parts[1]).merge(parts[2]).to_bytes() == whole.to_bytes()


def test_only_the_input_may_be_wanted() -> None:
    stats = observe(
        GRAPH, to_samples(FEEDS), CollectedTensors(["x"]), run=RunOptions(threads=1)
    ).tensors
    assert stats["x"].count == sum(f["x"].size for f in FEEDS)


def test_a_sample_that_fails_is_named() -> None:
    broken = [*FEEDS[:2], {"x": gaussian_array(1, 5, 8, 8)}]
    with pytest.raises(DataError, match=r"^sample 2: "):
        observed(broken)


def test_no_sample_is_an_error() -> None:
    with pytest.raises(DataError, match="no calibration sample"):
        observed([])


def test_a_nan_is_counted_separately() -> None:
    spoiled = {"x": FEEDS[0]["x"].copy()}
    spoiled["x"][0, 0, 0, 0] = np.nan
    calibration = observed([*FEEDS, spoiled])
    assert calibration.tensors["x"].nonfinite_count == 1
    assert np.isfinite(calibration.tensors["x"].max)


def test_the_graph_s_digest_is_kept_and_the_graph_left_alone() -> None:
    before = GRAPH.digest()
    assert observed(FEEDS[:1]).graph == before
    assert GRAPH.digest() == before


@pytest.mark.parametrize("name", CASES)
def test_only_float_tensors_are_asked_for(name: str) -> None:
    graph = prepare(Graph.from_proto(CASES[name])).graph
    values = {v.name: v for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None}
    wanted = list_tensors_to_observe(graph)
    assert len(set(wanted)) == len(wanted)
    for tensor in wanted:
        assert values[tensor].dtype.numpy() == np.float32
        assert values[tensor].const_value is None


@pytest.mark.parametrize("bounds", [{}, {"clipped": (0.0, 6.0)}])
def test_a_part_that_expects_a_merge_merges_to_the_same_bytes(
    bounds: dict[str, tuple[float, float]],
) -> None:
    rng = np.random.default_rng(0)
    wanted = CollectedTensors(["x", "few", "clipped"], {"x": 1}, bounds)
    arrays = []
    for scale in (1.0, 3.0, 0.1, 0.0, 3.0):
        x = scale * rng.normal(size=(2, 3, 400))
        arrays.append(
            {"x": x, "few": rng.integers(0, 9, (2, 5)), "clipped": np.clip(4 * x + 1, 0.0, 6.0)}
        )
    arrays[1]["x"][0, 0, :2] = np.nan, -np.inf
    arrays.insert(2, {})
    parts = []
    for number, tensors in enumerate(arrays):
        plain, told = start_statistics(wanted), start_statistics(wanted)
        if number:
            told.expect_merge(parts[-1][1])
            assert told.tensors["x"].values is None
            assert told.tensors["few"].values is not None
        for counted in (plain, told):
            counted.add_all({name: a.astype(np.float32) for name, a in tensors.items()})
        parts.append((plain, told))
    for order in (parts, parts[::-1]):
        plain, told = (reduce(RunningStatistics.merge, each) for each in zip(*order, strict=True))
        assert told.tensors == plain.tensors
        assert np.array_equal(told.channels["x"].sums, plain.channels["x"].sums)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_tensor_without_axes_is_returned_for_each_sample(at_once: bool) -> None:
    model = build_network("m = ReduceMean<keepdims=0>(x)\ny = Sub(x, m)", {"x": (1, 3, 2, 2)})
    graph = prepare(Graph.from_proto(model)).graph
    session = open_session_with_outputs(graph, CollectedTensors(["m", "y"]), threads=1)
    feeds = random_feeds(model, 4)
    found = BatchBuffers(session, ["m", "y"], 4, at_once=at_once).run([*to_samples(feeds)])
    for at, feed in enumerate(feeds):
        np.testing.assert_allclose(found["m"][at], feed["x"].mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("threads", "processors", "most"), [(1, 3, 3), (2, 5, 2), (4, 2, 1), (0, 8, 1)]
)
def test_as_many_runs_at_once_as_have_threads_of_their_own(
    threads: int, processors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: processors)
    session = open_session_with_outputs(GRAPH, CollectedTensors(["y"]), threads=threads)
    assert BatchBuffers(session, ["y"], 8, at_once=True)._most_runs_at_once == most
    assert BatchBuffers(session, ["y"], 8)._most_runs_at_once == 1


def test_samples_that_run_at_once_are_those_that_run_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: 3)
    session = open_session_with_outputs(GRAPH, CollectedTensors(["y"]), threads=1)
    run_into, together = session.run_into, threading.Barrier(3, timeout=10)

    def run_together(feed: Mapping[str, Any], memory: Any) -> None:
        together.wait()  # it opens only if three run at once
        run_into(feed, memory)

    samples = [*to_samples(FEEDS[:7])]
    one_by_one = BatchBuffers(session, ["x", "y"], 6)
    expected = [one_by_one.run(samples[:1])["y"][0], *one_by_one.run(samples[1:])["y"]]
    at_once = BatchBuffers(session, ["x", "y"], 6, at_once=True)
    first = at_once.run(samples[:1])["y"][0]
    monkeypatch.setattr(session, "run_into", run_together)
    np.testing.assert_array_equal([first, *at_once.run(samples[1:])["y"]], expected)


def test_the_bounds_of_a_clip_are_known_before_it_is_observed() -> None:
    model = build_network(f"c = Conv{SAME}(x, w)\ny = Clip(c, lo, hi)", {"x": ("n", 3, 8, 8)},
                          w=WB["w"], lo=np.float32(-0.5), hi=np.float32(0.5))  # fmt: skip
    graph = prepare(Graph.from_proto(model)).graph
    assert list_tensors_to_collect(graph).bounds == {"y": (-0.5, 0.5)}
