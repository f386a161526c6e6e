"""Oracle: errors given by hand, of which it is known what they should lead to; and float's outputs, moved by hand."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array
from numpy.typing import NDArray

from ptq.calibration.calibration import FOLDS, collect_in_folds, collect_statistics
from ptq.core.run_options import RunOptions
from ptq.data import open_samples, split_folds
from ptq.data.splits import list_input_specs
from ptq.data.workers.worker_pool import ProcessPool
from ptq.kernels import thread_pool
from ptq.model.graph import Graph
from ptq.optimization.effort import EFFORTS, EffortName
from ptq.optimization.equalization import candidates
from ptq.optimization.equalization.candidates import CandidateComparison
from ptq.optimization.equalization.contender import Contender
from ptq.optimization.output_error import RangeEvaluator
from ptq.optimization.range_candidates import METHODS
from ptq.optimization.significance import NEGLIGIBLE_ERROR
from ptq.rewrite.edit import set_constant
from ptq.rewrite.prepare.prepare import PreparedModel, prepare
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import Recipe

SAMPLES = 64
ONE_THREAD = RunOptions(threads=1)
WEIGHTS = {
    "w": gaussian_array(6, 4),
    "v": gaussian_array(3, 6, seed=1),
    "b": gaussian_array(6, seed=2),
    "c": gaussian_array(3),
}


@pytest.fixture(autouse=True)
def _every_stage_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "COMPARED_VALUES", 0)


@pytest.fixture
def plain() -> PreparedModel:
    nodes = "h = Gemm<transB = 1>(x, w, b)\nr = Relu(h)\ny = Gemm<transB = 1>(r, v, c)"
    return prepare(Graph.from_proto(build_network(nodes, {"x": ("n", 4)}, **WEIGHTS)))


def comparison(
    plain: PreparedModel,
    method: str = "auto",
    effort: EffortName = "default",
    samples: int = SAMPLES,
    run: RunOptions = ONE_THREAD,
) -> CandidateComparison:
    data = [{"x": gaussian_array(1, 4, seed=seed)} for seed in range(samples)]
    opened = open_samples(lambda: iter(data), list_input_specs(plain.graph))
    return CandidateComparison("m", plain, Recipe(method=method), opened, run, EFFORTS[effort])


def rename(plain: PreparedModel, note: str = "scaled") -> PreparedModel:
    """The same model with another note."""
    return replace(plain, notes=(note,))


def set_errors(
    monkeypatch: pytest.MonkeyPatch, errors: Mapping[str, float], plain: float = 1e-3
) -> None:
    """Let each candidate have the error that stands beside its note."""

    def of_contender(self: Any, contender: Contender) -> Any:
        notes, count = contender.candidate.notes, self._reference.count
        return np.full(count, errors[notes[0]] if notes else plain)

    monkeypatch.setattr(CandidateComparison, "_errors", of_contender)


def test_the_candidate_with_the_least_error_is_taken(plain, monkeypatch):
    set_errors(monkeypatch, {"a": 0.9e-3, "b": 0.5e-3})
    best = comparison(plain).select_best([rename(plain, "a"), rename(plain, "b")])
    assert best.notes == ("b; SQNR 30.0 → 33.0 dB on 8 samples, cross-validated",)


def test_a_candidate_with_a_higher_error_is_not_applied(plain, monkeypatch):
    set_errors(monkeypatch, {"a": 1.1e-3})
    best = comparison(plain).select_best([rename(plain, "a")])
    note = "equalization: not applied (SQNR 30.0 → 29.6 dB on 8 samples, cross-validated)"
    assert (best.graph, best.notes) == (plain.graph, (note,))


@pytest.mark.parametrize(("error", "applied"), [(0.94e-3, True), (0.96e-3, False)])
def test_the_error_of_a_candidate_that_takes_time_must_be_five_percent_lower(
    plain, monkeypatch, error, applied
):
    set_errors(monkeypatch, {"a": error})
    candidate = replace(rename(plain, "a"), boundaries={"h": ("reader",)})
    assert bool(comparison(plain).select_best([candidate]).boundaries) is applied


def test_a_candidate_that_computes_another_function_is_not_applied(plain):
    graph = plain.graph.copy()
    node = next(node for node in graph.nodes if node.op_type == "Gemm")
    set_constant(graph, node, 1, WEIGHTS["w"] * np.float32(0.95), "w")
    kept = comparison(plain).select_best([PreparedModel(graph, notes=("scaled",))])
    assert kept.graph is plain.graph
    assert kept.notes[-1].startswith("equalization: not applied (SQNR ")


def test_candidates_that_are_measured_at_once_have_the_same_errors(
    plain: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = [
        PreparedModel(_scaled(plain, by), notes=(f"by {by}",)) for by in (0.9, 0.95, 1.02)
    ]
    measured: list[tuple[str, tuple[float, ...]]] = []
    errors, both = CandidateComparison._errors, threading.Barrier(2)

    def record(self: Any, contender: Contender) -> Any:
        found, notes = errors(self, contender), contender.candidate.notes
        if self._run.pool is not None and not contender.errors and notes in ((), ("by 0.9",)):
            both.wait(60)  # fails where one waits for the other
        measured.append(("".join(notes), tuple(found)))
        return found

    monkeypatch.setattr(CandidateComparison, "_errors", record)
    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: 3)
    alone = comparison(plain, samples=16).select_best(candidates).notes
    one = sorted(measured)
    measured.clear()
    pool = ProcessPool(3)
    at_once = comparison(plain, samples=16, run=RunOptions(threads=1, pool=pool)).select_best(
        candidates
    )
    pool.stop()
    assert at_once.notes == alone
    assert sorted(measured) == one


def _scaled(plain: PreparedModel, by: float) -> Graph:
    graph = plain.graph.copy()
    node = next(node for node in graph.nodes if node.op_type == "Gemm")
    set_constant(graph, node, 1, WEIGHTS["w"] * np.float32(by), "w")
    return graph


@pytest.mark.parametrize(
    ("asked", "effort", "used"),
    [
        ("auto", "best", METHODS),
        ("auto", "default", METHODS),
        ("minmax", "best", ("minmax",)),
    ],
)
def test_candidates_are_evaluated_by_the_methods_that_can_be_chosen(
    plain: PreparedModel,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    effort: EffortName,
    used: Sequence[str],
) -> None:
    """Oracle: the scales of each method from the statistics of each fold."""
    feeds: list[Any] = []
    errors = RangeEvaluator.errors

    def recorded(self: Any, params: Any, *limits: Any) -> Any:
        feeds.append([float(of_fold["x"].scale) for of_fold in params])
        return errors(self, params, *limits)

    monkeypatch.setattr(RangeEvaluator, "errors", recorded)
    compared = comparison(plain, asked, effort, samples=16)
    compared.select_best([rename(plain)])
    assert len(feeds) == 2 * len(used)
    one, two, three, four = [
        collect_statistics(plain.graph, part) for part in split_folds(compared._samples, FOLDS)
    ]
    rests = [three.merge(four), three.merge(four), one.merge(two), one.merge(two)]
    for method, scales in zip(used, feeds[: len(used)], strict=True):
        plans = [
            solve_plan(CalibratedModel("m", plain.graph, plain, rest), Recipe(method=method))
            for rest in rests
        ]
        expected = [float(plan.tensors["x"].scale) for plan in plans]
        assert scales == pytest.approx(expected, rel=0.021)  # similar scales are measured once


def noisy(seed: int, count: int, factor: float) -> NDArray[np.float64]:
    """Errors of samples that differ by factors, with the given mean."""
    return factor * np.exp(gaussian_array(count, seed=seed).astype(np.float64))


@pytest.mark.parametrize(
    ("samples", "stages"), [(300, [8, 16, 32, 64, 128, 256]), (50, [8, 16, 32, 50])]
)
def test_the_race_goes_on_while_chance_can_decide(
    plain: PreparedModel, monkeypatch: pytest.MonkeyPatch, samples: int, stages: list[int]
) -> None:
    """Two candidates of which each is better on half of the samples."""
    counts: list[int] = []

    def errors(self: Any, contender: Contender) -> Any:
        count = self._reference.count
        if not contender.candidate.notes:
            counts.append(count)
        is_better = np.arange(count) % 2 == len(contender.candidate.notes)
        return np.where(is_better, 1e-3, 3e-3)

    monkeypatch.setattr(CandidateComparison, "_errors", errors)
    comparison(plain, samples=samples).select_best([rename(plain)])
    assert counts == stages


def test_a_candidate_that_is_worse_for_certain_does_not_run_again(
    plain: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    def errors(self: Any, contender: Contender) -> Any:
        note, count = (*contender.candidate.notes, "plain")[0], self._reference.count
        runs.append(note)
        seed, factor = {"plain": (1, 1e-2), "a": (1, 1e-3), "b": (2, 1e-3)}[note]
        return noisy(seed, count, factor)

    monkeypatch.setattr(CandidateComparison, "_errors", errors)
    compared = comparison(plain, samples=128)
    compared.select_best([rename(plain, "a"), rename(plain, "b")])
    assert runs.count("plain") == 1
    assert runs.count("a") == runs.count("b") > 1


@pytest.mark.parametrize(
    "stages", [(8, 20, SAMPLES), (16, 17, SAMPLES), (16, SAMPLES - 1, SAMPLES)]
)
def test_the_stages_of_the_race_add_to_the_statistics(
    plain: PreparedModel, stages: tuple[int, ...]
) -> None:
    """Oracle: all samples observed at once. A stage of one more sample has none of most folds."""
    run = RunOptions(threads=1)
    compared, contender = comparison(plain, effort="best"), Contender(plain, 1.0)
    for count in stages:
        samples, folds = compared._read_more_samples(count)
        contender.observe(samples, folds, run)
        compared._reference.extend(samples, folds)
    folds_found, whole = contender.to_folds(compared._samples)
    expected, folds_expected = collect_in_folds(plain.graph, compared._samples, run=run)
    for name, stats in expected.tensors.items():
        np.testing.assert_equal(whole.tensors[name].to_arrays(), stats.to_arrays())
    assert len(folds_found) == FOLDS
    assert [f.calibration.samples for f in folds_found] == [
        f.calibration.samples for f in folds_expected
    ]


def test_large_samples_end_the_race_early(
    plain: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_MEMORY_LIMIT", 20 * 4 * 4)
    compared = comparison(plain)
    counts = []
    for count in (16, 32):
        samples, folds = compared._read_more_samples(count)
        compared._reference.extend(samples, folds)
        counts.append(len(samples))
    assert counts == [16, 4]


def test_stages_that_see_too_few_values_do_not_compare(
    plain: PreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = 4 + 6 + 3
    monkeypatch.setattr(candidates, "COMPARED_VALUES", 50 * each)
    set_errors(monkeypatch, {"a": 0.5e-3})
    best = comparison(plain, samples=100).select_best([rename(plain, "a")])
    assert best.notes[0].endswith(" dB on 64 samples, cross-validated")
    best = comparison(plain, samples=20).select_best([rename(plain, "a")])
    assert best.notes[0].endswith(" dB on 20 samples, cross-validated")


@pytest.mark.parametrize("samples", [5, 7, 8, 17, 18, 19, 33, 65])
def test_any_number_of_samples_can_be_compared(
    plain: PreparedModel, monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    monkeypatch.setattr(candidates, "COMPARED_VALUES", 2**25)  # so that every stage observes
    best = comparison(plain, samples=samples).select_best([rename(plain, "a")])
    assert best.notes[-1].endswith(f" dB on {samples} samples, cross-validated)")


def test_a_negligible_error_ends_the_race_before_another_candidate_runs(plain, monkeypatch):
    set_errors(monkeypatch, {"a": 0.0}, plain=0.9 * NEGLIGIBLE_ERROR)
    opened: list[Contender] = []
    monkeypatch.setattr(
        CandidateComparison, "_open_evaluation", lambda self, one, run: opened.append(one)
    )
    best = comparison(plain).select_best([rename(plain, "a")])
    [note] = best.notes
    assert note.startswith("equalization: not applied (no improvement is needed: SQNR 45.5 dB on")
    assert [contender.candidate for contender in opened] == [plain]


def test_an_error_that_is_not_negligible_is_compared(plain, monkeypatch):
    set_errors(monkeypatch, {"a": 0.0}, plain=1.1 * NEGLIGIBLE_ERROR)
    assert comparison(plain).select_best([rename(plain, "a")]).notes[0].startswith("a; SQNR")


def test_a_joined_output_with_scales_is_compared_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The candidate's Concat joins doubled channels, which a Mul halves for the output."""
    nodes = "h = Gemm<transB = 1>(x, w, b)\ni = Gemm<transB = 1>(x, u)\nj = Concat<axis = 1>(h, i)\n{}z = Gemm(j, t)"
    weights = {**WEIGHTS, "u": gaussian_array(2, 4, seed=4), "t": gaussian_array(8, 3, seed=5)}
    doubled = {name: 2 * weights[name] for name in ("w", "b", "u")}
    scaled = nodes.format("y = Mul(j, half)\n")
    models = [
        build_network(nodes.format("").replace("j", "y"), {"x": ("n", 4)}, ("y", "z"), **weights),
        build_network(
            scaled, {"x": ("n", 4)}, ("y", "z"),
            **{**weights, **doubled, "t": weights["t"] / 2, "half": np.array(0.5, np.float32)},
        ),
    ]  # fmt: skip
    plain, rewritten = (prepare(Graph.from_proto(model)) for model in models)
    measured: list[NDArray[np.float64]] = []
    errors = CandidateComparison._errors

    def measure(self: CandidateComparison, contender: Contender) -> NDArray[np.float64]:
        measured.append(errors(self, contender))
        return measured[-1]

    monkeypatch.setattr(CandidateComparison, "_errors", measure)
    comparison(plain).select_best([replace(rewritten, notes=("doubled",))])
    assert len(measured) > 1
    assert max(np.median(found) for found in measured) < 0.01
