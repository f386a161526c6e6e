"""Oracle: the scaled model itself, observed on the same samples."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.calibration.calibration import FOLDS, list_tensors_to_collect
from ptq.calibration.collect import BatchBuffers
from ptq.calibration.measured_tensors import MeasuredTensors, measure_tensors
from ptq.calibration.observe_splits import observe_splits
from ptq.core.run_options import RunOptions
from ptq.core.types import UINT8
from ptq.data import Sample, Samples, open_samples, rank_by_digest
from ptq.data.splits import list_input_specs
from ptq.data.workers.worker_pool import ProcessPool
from ptq.kernels import thread_pool
from ptq.model.graph import Graph
from ptq.observers.channel_values import ChannelValues, take_values, to_stats, to_sums
from ptq.observers.mse import mse
from ptq.optimization.equalization.candidate_statistics import (
    HALVES,
    add_wider_statistics,
    derive_statistics,
    is_derivable,
)
from ptq.optimization.equalization.equalization import _with_factors
from ptq.rewrite.prepare.prepare import PreparedModel, prepare

RUN = RunOptions(threads=1)
FACTORS = tuple(2.0 ** (np.arange(8) % 4))


@pytest.fixture
def plain() -> PreparedModel:
    weights = {
        "w": gaussian_array(8, 3, 1, 1),
        "b": gaussian_array(8, seed=2),
        "v": gaussian_array(5, 8, 3, 3, seed=1),
        "c": gaussian_array(5, seed=3),
    }
    nodes = "h = Conv(x, w, b)\nr = Relu(h)\ny = Conv(r, v, c)"
    return prepare(Graph.from_proto(build_network(nodes, {"x": (1, 3, 12, 12)}, **weights)))


@pytest.fixture
def samples(plain: PreparedModel) -> Samples:
    data = [{"x": gaussian_array(1, 3, 12, 12, seed=seed)} for seed in range(16)]
    return open_samples(lambda: iter(data), list_input_specs(plain.graph))


def measure(plain: PreparedModel, samples: Samples, run: RunOptions = RUN) -> MeasuredTensors:
    wanted, ranked = list_tensors_to_collect(plain.graph), rank_by_digest(samples)
    axes = {**dict.fromkeys(wanted.tensors, 1), **wanted.channel_axes}
    measured = MeasuredTensors([{} for _ in range(FOLDS)], [0] * FOLDS)
    names = [ranked[fold::FOLDS] for fold in range(FOLDS)]
    measure_tensors(plain.graph, axes, samples, names, len(ranked), into=measured, run=run)
    return measured


def test_values_measured_on_threads_are_those_of_one_thread(
    plain: PreparedModel, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: 3)
    together, threads = threading.Barrier(3, timeout=10), set[int]()
    run = BatchBuffers.run

    def run_together(self: BatchBuffers, group: Sequence[Sample]) -> Any:
        thread = threading.get_ident()
        if thread != threading.main_thread().ident and thread not in threads:
            threads.add(thread)
            together.wait()  # it opens only if three run at once
        return run(self, group)

    one = measure(plain, samples)
    monkeypatch.setattr(BatchBuffers, "run", run_together)
    several = measure(plain, samples, RunOptions(threads=1, pool=ProcessPool(3)))
    assert len(threads) == 3
    assert several.samples == one.samples
    for fold in range(FOLDS):
        sources = {name: (name, None) for name in one.folds[fold]}
        found, expected = (m.to_calibration([fold], sources, {}) for m in (several, one))
        assert found.tensors == expected.tensors


@pytest.mark.parametrize("boundaries", [{}, {"y": ("writer",)}], ids=["inner", "boundary"])
def test_the_statistics_of_a_candidate_follow_from_those_of_the_plain_model(
    plain: PreparedModel, samples: Samples, boundaries: dict[str, tuple[str, ...]]
) -> None:
    nodes = list(plain.graph.nodes)
    boundaries = {name: (str(nodes[-1].name),) for name in boundaries}
    factors = {str(nodes[0].outputs[0].name): FACTORS}
    if boundaries:
        factors["y"] = (1.0, 2.0, 4.0, 0.5, 1.0)
    candidate = _with_factors(plain.graph, factors, boundaries)
    assert is_derivable(plain.graph, candidate)
    assert dict(candidate.boundaries) == boundaries
    found = derive_statistics(plain.graph, candidate, measure(plain, samples), samples, RUN)
    ranked = rank_by_digest(samples)
    names = [ranked[half::HALVES] for half in range(HALVES)]
    wanted = list_tensors_to_collect(candidate.graph)
    for got, expected in zip(
        found, observe_splits(candidate.graph, samples, wanted, names, run=RUN), strict=True
    ):
        assert got.samples == expected.samples == len(samples) // 2
        assert got.tensors.keys() == expected.tensors.keys()
        for name, stats in expected.tensors.items():
            ends = got.tensors[name].min, got.tensors[name].max
            assert ends == pytest.approx((stats.min, stats.max), rel=1e-5)
            assert got.tensors[name].count == stats.count
        for name, sums in expected.channels.items():
            np.testing.assert_allclose(got.channels[name].mean, sums.mean, atol=1e-5)


def test_only_scaled_tensors_keep_the_statistics_of_few_samples(
    plain: PreparedModel, samples: Samples
) -> None:
    h, r, y = (str(node.outputs[0].name) for node in plain.graph.nodes)
    candidate = _with_factors(plain.graph, {h: FACTORS}, {})
    every = samples.names
    few, whole = (
        observe_splits(
            candidate.graph, samples, list_tensors_to_collect(candidate.graph), names, run=RUN
        )[0]
        for names in ([every[:4], every[4:]], [every])
    )
    [wider] = observe_splits(
        plain.graph, samples, list_tensors_to_collect(plain.graph), [every], run=RUN
    )
    found = add_wider_statistics(few, plain.graph, candidate, wider)
    assert found.samples == few.samples == 4
    assert found.tensors.keys() == few.tensors.keys() >= {"x", r, y}
    for name in found.tensors:
        expected = few if name in (h, r) else whole
        ends = found.tensors[name].min, found.tensors[name].max
        assert ends == pytest.approx(
            (expected.tensors[name].min, expected.tensors[name].max), rel=1e-5
        )
        assert found.tensors[name].count == expected.tensors[name].count


def test_a_candidate_of_another_kind_is_observed(plain: PreparedModel) -> None:
    assert not is_derivable(plain.graph, PreparedModel(plain.graph.copy()))


def test_values_at_distances_estimate_range_and_mean() -> None:
    """Oracle: all values. The tail is heavy, so that few values decide the range."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_t(4, (1, 16, 32, 32)).astype(np.float32) for _ in range(20)]
    arrays = [array + np.arange(16, dtype=np.float32)[:, None, None] / 2 for array in arrays]
    few, every = ChannelValues(1), ChannelValues(1)
    for array in arrays:
        for values, distance in ((few, 40), (every, 1)):
            found = take_values(array, values.axis, distance)
            assert found is not None
            values.add(found)
    factors = np.linspace(1, 2, 16)
    estimate, exact = to_stats([few], factors), to_stats([every], factors)
    assert (estimate.min, estimate.max) == (exact.min, exact.max)
    assert estimate.count == pytest.approx(exact.count, rel=0.1)
    ends = [mse(stats, UINT8, symmetric=False) for stats in (estimate, exact)]
    assert ends[0].hi - ends[0].lo == pytest.approx(ends[1].hi - ends[1].lo, rel=0.1)
    means = [to_sums([values], factors).mean for values in (few, every)]
    np.testing.assert_allclose(means[0], means[1], atol=0.35)
