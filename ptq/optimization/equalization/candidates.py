"""A race between rewritten models, the candidates, by their output error after quantization.

Cross-validation compares the candidates: the ranges that one half of the samples sets are evaluated on the
other half. The first stage runs few samples. A stage drops each candidate that is worse than the best one
for certain, and each that can only differ from it by a little. The race ends when one candidate is
left, or after the last stage.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import FOLDS
from ptq.calibration.measured_tensors import MeasuredTensors
from ptq.core.decibels import to_error_db
from ptq.core.memory import release_memory
from ptq.core.opspec import WEIGHT_INPUT
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.stages import COMPARING_CANDIDATES
from ptq.core.types import QuantParams
from ptq.core.wording import plural
from ptq.data import Sample, Samples, rank_by_digest
from ptq.kernels.thread_pool import map_ahead
from ptq.model.graph import Graph
from ptq.model.node import get_constant, get_name, get_node_name
from ptq.model.proto.external_data import count_weight_bytes
from ptq.observers.calibration_file import Calibration
from ptq.observers.input_means import InputMean, find_float_means
from ptq.optimization.effort import COMPARED_VALUES, SUFFICIENT_VALUES, Effort
from ptq.optimization.equalization.candidate_evaluation import CandidateEvaluation, ParamsByFold
from ptq.optimization.equalization.candidate_statistics import derive_statistics, is_derivable
from ptq.optimization.equalization.contender import Contender, is_decided
from ptq.optimization.output_error import OutputError, RangeEvaluator
from ptq.optimization.range_candidates import METHODS, choose_params_by_fold, find_candidates
from ptq.optimization.significance import MAX_ERROR_RATIO, NEGLIGIBLE_ERROR
from ptq.rewrite.emit.bias_correction import correct_biases
from ptq.rewrite.emit.set_weights import set_weights
from ptq.rewrite.instrument.logits import build_logits_graph, find_common_cut
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import AUTO, Recipe

_WEIGHT_ERROR_LEFT = 0.1
"""The share of the round-to-nearest weight error that second-order rounding leaves: measured 0.1 to 0.4. Error
compensation lowers it further."""
_MEMORY_LIMIT = 128 * 2**20
"""Bytes of the samples that are kept for all stages; the first stage runs whatever its size."""
_KEPT_WEIGHTS = 2**26
"""Bytes of weights up to which each candidate stays loaded for all stages; a larger one is measured again."""


class CandidateComparison:
    """Quantizes candidates, compares their outputs with the float model's, and keeps the one with the least error."""

    def __init__(
        self,
        name: str,
        prepared: PreparedModel,
        recipe: Recipe,
        samples: Samples,
        run: RunOptions,
        effort: Effort,
        *,
        measured: MeasuredTensors | None = None,
        known: Calibration | None = None,
    ) -> None:
        """Set up a comparison with a plain model.

        Args:
            name: The name of the model.
            prepared: The plain model.
            recipe: How the model is quantized.
            samples: Calibration samples.
            run: How the job runs.
            effort: How many samples and methods the comparison may take.
            measured: The values of the plain model's tensors on the samples with the lowest digests. Candidates with
                scaled channels are then not observed, except those of a small network: chance in its ranges decides.
            known: Statistics of the plain model on more samples than those given, which then set its ranges.
        """
        self._name, self._prepared, self._recipe = name, prepared, recipe
        self._methods = METHODS if recipe.method == AUTO else (recipe.method,)
        self._counts, self._samples, self._run = effort.comparison_samples, samples, run
        is_small = measured is None or measured.count_values(max(self._counts)) < COMPARED_VALUES
        self._checks, self._measured = effort.range_checks, None if is_small else measured
        self._known = known
        self._cut = frozenset(get_name(value) for value in prepared.graph.outputs)
        self._reference = OutputError(build_logits_graph(prepared.graph), [], run)

    def select_best(self, candidates: Iterable[PreparedModel]) -> PreparedModel:
        """The candidate with the least error if it is lower than the plain model's, else that; with a note.

        Quantizers that scale channels take time; the error of a candidate with them must be 5 % lower.

        Args:
            candidates: The rewritten models, each with one sentence in ``notes``.

        Raises:
            DataError: A sample is unreadable, does not fit, or the model fails on it.
        """
        rewritten = [*candidates]
        if not rewritten:
            return self._prepared
        graph = self._prepared.graph
        cut = find_common_cut([graph, *(one.graph for one in rewritten)])
        if cut != self._cut:
            self._cut = cut
            self._reference = OutputError(build_logits_graph(graph, cut), [], self._run)
        plain = self._to_contender(self._prepared, 1.0)
        rivals = [
            self._to_contender(one, 1 / MAX_ERROR_RATIO if one.boundaries else 1.0)
            for one in rewritten
        ]
        self._measured = None  # frees memory: the statistics of all candidates are known
        best = self._race([plain, *rivals])
        if best is plain:
            measured = [rival for rival in rivals if rival.errors]
            nearest = min(measured, key=Contender.weighted_mean, default=plain)
            note = f"equalization: not applied ({_describe(plain, nearest)})"
            return self._prepared.with_note(note)
        figures = _describe(plain, best)
        [note] = best.candidate.notes
        return best.candidate.in_place_of(self._prepared, f"{note}; {figures}")

    def _to_contender(self, candidate: PreparedModel, required: float) -> Contender:
        measured, plain = self._measured, self._prepared.graph
        if candidate.graph is plain and self._known is not None:
            return Contender(candidate, required, known=self._known)
        if measured is None or not is_derivable(plain, candidate):
            return Contender(candidate, required)
        halves = derive_statistics(plain, candidate, measured, self._samples, self._run)
        return Contender(candidate, required, halves=halves)

    def _race(self, contenders: Sequence[Contender]) -> Contender:
        """The contender with the least error. Those that were dropped keep the errors of their last stage.

        The first one, the plain model, wins without a race if its error is negligible.
        """
        remaining = list(contenders)
        advance = self._run.start_stage(COMPARING_CANDIDATES, None)
        for _ in self._observe_stages(remaining):
            with closing(self._measure(remaining)) as measured:
                for contender, errors in zip(remaining, measured, strict=True):
                    contender.errors.append(errors)
                    advance()
                    plain = contender is contenders[0]
                    if plain and contender.weighted_mean() <= NEGLIGIBLE_ERROR:
                        advance.end()
                        return contender
            best = min(remaining, key=Contender.weighted_mean)
            for contender in [c for c in remaining if c is not best and is_decided(best, c)]:
                contender.evaluation = None  # closes its sessions
                remaining.remove(contender)
            if remaining == [best]:
                break
        advance.end()
        return min(remaining, key=Contender.weighted_mean)

    def _measure(
        self, remaining: Sequence[Contender]
    ) -> Generator[NDArray[np.float64], None, None]:
        """The errors of contenders, in order. The next ones open and run meanwhile, unless they are large."""
        at_once = self._run.jobs_at_once
        if at_once == 1 or count_weight_bytes(self._prepared.graph.model) > _KEPT_WEIGHTS:
            for contender in remaining:
                yield self._errors(self._open(contender, self._run))
            return
        alone = replace(self._run, pool=None)
        # one opens at a time: contenders share ranges, each of which is then chosen once
        opened = map_ahead(lambda contender: self._open(contender, alone), remaining, 1)
        yield from map_ahead(self._errors, opened, at_once)

    def _open(self, contender: Contender, run: RunOptions) -> Contender:
        """The contender, with an evaluation."""
        contender.evaluation = contender.evaluation or self._open_evaluation(contender, run)
        return contender

    def _observe_stages(self, remaining: Sequence[Contender]) -> Iterator[int]:
        """The number of samples of each stage that compares, after those remaining have observed them."""
        is_pending = False
        for count in self._counts:
            added, folds = self._read_more_samples(count)
            if not added:
                break
            self._reference.extend(added, folds)
            for contender in remaining:
                contender.observe(added, folds, self._run)
            values = remaining[0].count_values(self._reference.count)
            is_pending = values < COMPARED_VALUES
            if not is_pending:
                yield self._reference.count
            if values >= SUFFICIENT_VALUES:
                break
        if is_pending:
            yield self._reference.count

    def _read_more_samples(self, count: int) -> tuple[list[Sample], list[int]]:
        """Samples and their folds, so that ``count`` are known in all; fewer if they are large."""
        known = self._reference.samples
        if known:
            each = max(1, known[0].nbytes)
            count = min(count, max(len(known), _MEMORY_LIMIT // each))
        chosen = rank_by_digest(self._samples)[:count]
        fold_of = {
            name: rank % FOLDS if len(chosen) >= 2 * FOLDS else 0
            for rank, name in enumerate(chosen)
        }
        names = set(chosen).difference(sample.name for sample in known)
        added = list(self._samples.subset(names.__contains__)) if names else []
        return added, [fold_of[sample.name] for sample in added]

    def _errors(self, contender: Contender) -> NDArray[np.float64]:
        """The error of each sample with the best range method: by activations, plus a share of that by weights."""
        evaluation = contender.evaluation
        assert evaluation is not None
        is_kept = (
            contender.is_observed
            and count_weight_bytes(contender.candidate.graph.model) <= _KEPT_WEIGHTS
        )
        contender.evaluation = evaluation if is_kept else None
        errors = evaluation.measure_more(self._checks)
        if not is_kept:
            del evaluation
            release_memory()
        return errors

    def _open_evaluation(self, contender: Contender, run: RunOptions) -> CandidateEvaluation:
        candidate = contender.candidate
        folds, whole = contender.to_folds(self._samples)
        model = CalibratedModel(self._name, candidate.graph, candidate, whole)
        recipe, ranges = find_candidates(
            model, self._recipe.with_float_nodes(candidate.float_nodes), folds, self._methods
        )
        # the plan's scales are inputs, so any fold's do; those of the first fold are known already
        plan = solve_plan(replace(model, calibration=folds[0].calibration), recipe)
        names = [n for c in ranges for n in c.group.tensors if n in plan.tensors]
        corrected = plan.tensors if recipe.correct_bias else ()
        means = {n: InputMean(mean, 0.0) for n, mean in find_float_means(whole, corrected).items()}
        graph = build_logits_graph(_with_weight_errors(candidate.graph, plan, means), self._cut)
        evaluator = RangeEvaluator(graph, plan, names, folds, self._reference, run)
        first, count = self._methods[0], len(folds)
        params: dict[str, ParamsByFold] = {
            m: choose_params_by_fold(ranges, count, m, first) for m in self._methods
        }
        return CandidateEvaluation(evaluator.errors, params)


def _describe(plain: Contender, other: Contender) -> str:
    """The figures of a decision, of the last stage that both ran in."""
    stage = min(len(plain.errors), len(other.errors)) - 1
    before, after = (-to_error_db(float(c.errors[stage].mean())) for c in (plain, other))
    figures = f"SQNR {before:.1f} → {after:.1f} dB"
    if other is plain:
        figures = f"no improvement is needed: SQNR {before:.1f} dB"
    return f"{figures} on {plural(len(other.errors[stage]), 'sample')}, cross-validated"


def _with_weight_errors(graph: Graph, plan: Plan, means: Mapping[str, InputMean]) -> Graph:
    """The graph with the weight errors that second-order rounding leaves, and biases corrected for them.

    The errors are those of rounding to the nearest, smaller by the root of the share of their energy that is left.
    """
    weights, known = {}, dict[tuple[int, QuantParams], NDArray[Any]]()
    share = math.sqrt(_WEIGHT_ERROR_LEFT)
    for node in graph.nodes:
        weight = (
            get_constant(node.inputs[WEIGHT_INPUT]) if len(node.inputs) > WEIGHT_INPUT else None
        )
        params = plan.find_weight_qparams(get_node_name(node))
        if weight is not None and params is not None:
            key = (id(node.inputs[WEIGHT_INPUT]), params)
            if key not in known:
                changed = params.round(weight)
                changed -= weight
                changed *= share
                changed += weight
                known[key] = changed
            weights[get_node_name(node)] = known[key]
    corrected, _ = correct_biases(graph, plan, means, weights)
    set_weights(corrected, weights)
    return corrected
