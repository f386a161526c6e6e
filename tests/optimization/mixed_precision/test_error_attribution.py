"""Error attribution by groups of sources; each source run alone is the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array, quantize_network, random_feeds, to_samples
from onnx import TensorProto, helper

from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions
from ptq.optimization.mixed_precision.attribution import error_attribution
from ptq.optimization.mixed_precision.attribution.error_attribution import attribute_error
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.rewrite.instrument.error_sources import ErrorProbe, build_error_probe

DEPTH = 12
CHAIN = "\n".join(
    f"c{k} = Gemm({f'r{k - 1}' if k else 'x'}, w{k})\nr{k} = Relu(c{k})" for k in range(DEPTH)
)
THESE = to_samples(random_feeds(build_network("y = Relu(x)", {"x": (8, 16)}), 3))


def chain_probe(coarse: int | None = None) -> ErrorProbe:
    """A chain of layers; the weights of one may be spread so far that most of them round to 0."""
    weights = {f"w{k}": gaussian_array(16, 16, seed=k, scale=0.4) for k in range(DEPTH)}
    if coarse is not None:
        weights[f"w{coarse}"][:2] *= 40
    nodes = f"{CHAIN}\nu = Gemm(r{DEPTH - 1}, v)\ny = Softmax(u)\nz = Relu(u)"
    model = build_network(
        nodes, {"x": (8, 16)}, ("y", "z"), v=gaussian_array(16, 4, seed=99), **weights
    )
    done = quantize_network(model, [dict(s.feed) for s in THESE], per_tensor=True)
    return build_error_probe(done.prepared, done.plan, done.qdq)


def injector(parts: ErrorProbe) -> ErrorInjector:
    return ErrorInjector(parts, RunOptions(threads=1))


def alone(parts: ErrorProbe) -> np.ndarray:
    runs = injector(parts)
    found = [*runs.output_error_energies(THESE, np.eye(len(parts.sources), dtype=np.float32))]
    noise, signal = (np.sum([pair[k] for pair in found], axis=0) for k in (0, 1))
    return noise / signal[:, None]


def test_a_sequence_has_the_error_of_its_items() -> None:
    nodes = "h = Gemm(x, w)\ny = Relu(h)\nz = Gemm(y, v)"
    weights = {"w": gaussian_array(16, 16), "v": gaussian_array(16, 4, seed=1)}
    model = build_network(
        nodes + "\ns = SequenceConstruct(y, z)", {"x": (8, 16)}, ("y", "z"), **weights
    )
    model.graph.output.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    done = quantize_network(model, [dict(s.feed) for s in THESE])
    parts = build_error_probe(done.prepared, done.plan, done.qdq)
    factors = np.ones((1, len(parts.sources)), np.float32)
    for noise, signal in injector(parts).output_error_energies(THESE, factors):
        assert noise[2] == pytest.approx(noise[0] + noise[1])
        assert signal[2] == pytest.approx(signal[0] + signal[1])


def test_equal_infinities_of_an_output_hide_no_error() -> None:
    nodes, weights = "h = Gemm(x, w)\ny = Relu(h)", {"w": gaussian_array(16, 16)}
    masked = {"mask": np.full((8, 1), -np.inf, np.float32)}
    model = build_network(
        f"{nodes}\nz = Concat<axis = 1>(y, mask)", {"x": (8, 16)}, ("y", "z"), **weights, **masked
    )
    done = quantize_network(model, [dict(s.feed) for s in THESE], skip=("Concat",))
    parts = build_error_probe(done.prepared, done.plan, done.qdq)
    factors = np.ones((1, len(parts.sources)), np.float32)
    for noise, signal in injector(parts).output_error_energies(THESE, factors):
        assert noise[1] == pytest.approx(noise[0])
        assert signal[1] == pytest.approx(signal[0])


def test_few_that_make_most_are_each_found_in_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = chain_probe(coarse=5)
    expected, count = alone(parts), len(parts.sources)
    monkeypatch.setattr(error_attribution, "INITIAL_GROUPS", 4)
    enough = np.full(2, expected[0].max() / 4)
    ticks: list[int] = []
    found = attribute_error(
        injector(parts),
        THESE,
        np.array([enough[0], np.inf]),
        advance=lambda: ticks.append(1),
    )
    worst = int(expected[0].argmax())
    assert int(found.error_shares[0].argmax()) == worst
    assert found.error_shares[0].max() == pytest.approx(expected[0].max(), rel=1e-5)
    assert found.measured_alone[worst]
    assert len(ticks) > len(THESE)
    assert found.runs - 2 < count


def test_a_source_of_much_error_is_measured_alone_without_being_asked_for() -> None:
    parts = chain_probe(coarse=5)
    expected, found = alone(parts), attribute_error(injector(parts), THESE)
    for share, own, together in zip(found.error_shares, expected, found.joint_shares, strict=True):
        worst = int(own.argmax())
        assert own[worst] > together / 5
        assert found.measured_alone[worst]
        assert share[worst] == pytest.approx(own[worst], rel=1e-5)
    assert not found.measured_alone.all()


def test_runs_are_counted_and_progress_covers_every_sample_of_a_round() -> None:
    parts, ticks = chain_probe(coarse=5), []
    found = attribute_error(
        injector(parts), THESE, np.full(2, np.inf), advance=lambda: ticks.append(1)
    )
    assert found.samples == len(ticks) == len(THESE)
    assert found.runs == 1 + error_attribution.INITIAL_GROUPS + 2
    assert found.sources == parts.sources
    assert found.mean_shares == pytest.approx(found.error_shares.mean(axis=0))


def test_no_sample_is_an_error() -> None:
    with pytest.raises(DataError, match="no sample"):
        attribute_error(injector(chain_probe()), [])


def test_all_sources_are_measured_alone_where_each_counts() -> None:
    parts = chain_probe()
    found = attribute_error(injector(parts), THESE, np.zeros(2) + 1e-12)
    assert found.measured_alone.all()
    assert found.error_shares == pytest.approx(alone(parts), rel=1e-5, abs=1e-9)
    every = injector(parts)
    ones = np.ones((1, len(parts.sources)), np.float32)
    pairs = list(every.output_error_energies(THESE, ones))
    noise, signal = (np.sum([pair[k] for pair in pairs], axis=0) for k in (0, 1))
    assert found.joint_shares == pytest.approx(noise[:, 0] / signal)


def test_runs_are_bounded_and_groups_that_are_not_parted_share_what_they_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = chain_probe()
    monkeypatch.setattr(error_attribution, "MAX_RUNS", error_attribution.INITIAL_GROUPS)
    found = attribute_error(injector(parts), THESE, np.zeros(2) + 1e-12)
    assert (
        len({float(share) for share in found.error_shares[0]}) <= error_attribution.INITIAL_GROUPS
    )
    assert (found.error_shares >= 0).all()
    assert found.runs == 1 + error_attribution.INITIAL_GROUPS + 2
    assert not found.measured_alone.all()


class _ErrorsOfOneSign:
    """Sources whose errors add up in one output: the energy of several is the square of the sum."""

    def __init__(self, sizes: np.ndarray) -> None:
        sources = tuple(SimpleNamespace(node="") for _ in sizes)
        self.probe: Any = SimpleNamespace(sources=sources, injected=SimpleNamespace(nodes=()))
        self.runs, self._sizes = 0, sizes

    def output_error_energies(self, samples: Any, factors: np.ndarray) -> Iterator[Any]:
        for _ in samples:
            yield np.square(factors @ self._sizes)[None], np.array([1000.0])


def test_of_errors_of_one_sign_the_largest_is_found_though_all_together_are_much_more() -> None:
    sizes = np.full(16, 0.5)
    sizes[5] = 1.0
    fake: Any = _ErrorsOfOneSign(sizes)
    found = attribute_error(fake, THESE[:1], groups=8, least=1 / 6)
    assert found.joint_shares[0] > 6 * np.square(sizes[4:6].sum()) / 1000
    assert int(found.mean_shares.argmax()) == 5
    assert found.measured_alone[5]
