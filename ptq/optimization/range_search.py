"""Search for the range method of each tensor that causes the least error in the model outputs.

All activations are rounded, weights are not. The scales are inputs, so one model serves every choice of ranges.
The search starts from the one method that is best for all tensors. It then tries another method for all tensors of
one operator, then for single tensors: first those whose scales differ most between methods. Ranges are evaluated by
cross-validation: no sample evaluates a range that it helped to set. A method is kept if it lowers the output error
significantly. For probabilities, the error of the logits counts. Graph outputs, and the inputs of monotone functions
that write graph outputs, keep their extremes, because order matters there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import CrossValidationFold
from ptq.core.decibels import to_error_db
from ptq.core.run_options import RunOptions
from ptq.core.stages import CHOOSING_RANGES
from ptq.core.wording import plural
from ptq.data import Samples
from ptq.optimization.effort import Effort
from ptq.optimization.output_error import OutputError, RangeEvaluator
from ptq.optimization.range_candidates import METHODS, GroupCandidates, find_candidates
from ptq.optimization.significance import NEGLIGIBLE_ERROR, is_significantly_lower
from ptq.rewrite.instrument.logits import build_logits_graph
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import AUTO, FALLBACK_METHOD, ChosenMethod, Recipe

_MIN_SAMPLES = 8
"""With fewer samples chance decides, and the samples that set the ranges evaluate them too."""
_PROMISING = 1.0
"""Standard errors by which a method must be better on the first samples to be measured on more."""
TOO_FEW_REASON = "with too few samples to compare methods"
SAME_REASON = "mse: other methods choose nearly the same range"


def choose_ranges(
    model: CalibratedModel,
    recipe: Recipe,
    folds: Sequence[CrossValidationFold],
    *,
    effort: Effort,
    run: RunOptions,
    alone: AbstractContextManager[None] | None = None,
) -> Recipe:
    """The recipe with a range method for every scale group; unchanged if the user asks for one method.

    Args:
        model: The model with its statistics.
        recipe: How the model is quantized.
        folds: The folds that evaluate ranges; without any, no method is tried.
        effort: How many samples and runs the search may take.
        run: How the job runs.
        alone: Entered while this process works alone; its workers may do something else.

    Raises:
        StatsError: A tensor that needs a range was not observed.
        DataError: The model fails on a sample; the text names it.
    """
    if recipe.method != AUTO:
        return recipe
    count = sum(len(fold.samples) for fold in folds)
    is_search = bool(count >= _MIN_SAMPLES and effort.range_runs)
    with alone or nullcontext():
        recipe, candidates = find_candidates(model, recipe, folds if is_search else ())
    if not is_search:
        return _explain_no_search(recipe, effort, count)
    graph = build_logits_graph(model.prepared.graph)
    undecided = [c for c in candidates if len(c.params) > 1]
    plan = solve_plan(model, recipe)
    names = [n for c in undecided for n in c.group.tensors if n in plan.tensors]
    advance = run.start_stage(CHOOSING_RANGES, None)
    output_error = OutputError(graph, [], run)
    evaluator = RangeEvaluator(graph, plan, names, folds, output_error, run, advance)
    stages = _split_into_stages(folds, effort.range_samples) if names else []
    search = _RangeSearch(undecided, evaluator, effort, stages)
    search.run()
    advance.end()
    chosen = {
        n: ChosenMethod(FALLBACK_METHOD, SAME_REASON) for c in candidates for n in c.group.tensors
    }
    chosen = {**recipe.chosen_methods, **chosen, **search.chosen_methods()}
    return replace(recipe, chosen_methods=chosen, range_note=search.note())


def _explain_no_search(recipe: Recipe, effort: Effort, samples: int) -> Recipe:
    if not effort.range_runs:
        return replace(recipe, uncompared="because effort fast compares no methods")
    return replace(recipe, uncompared=TOO_FEW_REASON) if samples else recipe


def _split_into_stages(
    folds: Sequence[CrossValidationFold], counts: Iterable[int]
) -> list[list[Samples]]:
    """The samples of each fold that each stage adds, so that about ``counts`` samples evaluate in all."""
    stages, known = [], set[str]()
    for count in counts:
        chosen = [fold.samples.spread(-(-count // len(folds))) for fold in folds]
        stages.append([_without(known, samples) for samples in chosen])
        known.update(name for samples in chosen for name in samples.names)
    return stages


def _without(names: Collection[str], samples: Samples) -> Samples:
    known = frozenset(names)
    return samples.subset(lambda name: name not in known)


@dataclass(frozen=True, eq=False)
class _RejectedMethod:
    """A range method that was not taken.

    Attributes:
        method: Its name.
        kept_errors: The error of each sample with the method that was kept.
        rejected_errors: The error of each sample with this method; NaN if the sample was not run, because the error
            was already too high.
    """

    method: str
    kept_errors: NDArray[np.float64]
    rejected_errors: NDArray[np.float64]

    @property
    def loss_db(self) -> float:
        """By how many decibels its error is higher, at least."""
        kept = self.kept_errors.mean()
        rejected = np.nansum(self.rejected_errors) / self.rejected_errors.size
        return to_error_db(rejected) - to_error_db(kept) if kept or rejected else 0.0

    def __str__(self) -> str:
        """The comparison in words."""
        how = "higher" if self.loss_db >= 0 else "lower, not significant"
        figure = f"{abs(self.loss_db):.2f} dB {how}"
        if np.isnan(self.rejected_errors).any():
            figure = f"at least {figure}" if self.loss_db >= 0 else "about the same, or higher"
        return f"output error with {self.method}: {figure}"


@dataclass
class _RangeSearch:
    """Changes the method of sets of scale groups as long as that lowers the output error.

    Attributes:
        candidates: The scale groups with more than one candidate.
        evaluator: Measures errors.
        effort: How many runs the search may take.
        stages: For each stage to come, the samples of each fold that it adds. The next stage starts when a method
            is not rejected on the samples so far.
        methods: The current method of each group.
        rejected: For a group, the rejected method whose error came nearest.
        known: The measured errors of each combination of methods.
        errors: The error of each sample with the current methods.
        start: The error of each sample with the methods that the search starts from.
    """

    candidates: Sequence[GroupCandidates]
    evaluator: RangeEvaluator
    effort: Effort
    stages: list[list[Samples]]
    methods: list[str] = field(default_factory=list)
    rejected: dict[int, _RejectedMethod] = field(default_factory=dict)
    known: dict[tuple[str, ...], NDArray[np.float64]] = field(default_factory=dict)
    errors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    start: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def run(self) -> None:
        """Try each method for all groups at once, then for those of one operator, then for single groups."""
        everything = range(len(self.candidates))
        self.methods = [FALLBACK_METHOD for _ in everything]
        self._add_samples()
        if not self.candidates or not self.evaluator.count:
            return
        self.start = self.errors = self._measure(self.methods)
        if self.start.mean() <= NEGLIGIBLE_ERROR:
            return
        for method in self._changing_methods(everything):
            self._try_method(everything, method)
        kinds: dict[str, list[int]] = {}
        for index in self._by_scale_ratio(everything):
            kinds.setdefault(self.candidates[index].kind, []).append(index)
        sets = [members for members in kinds.values() if len(members) < len(self.candidates)]
        for members in (*sets, *([index] for index in self._by_scale_ratio(everything))):
            for method in self._changing_methods(members):
                if self.evaluator.runs >= self.effort.range_runs:
                    return
                self._try_method(members, method)

    def _changing_methods(self, members: Iterable[int]) -> Iterator[str]:
        members = list(members)
        for method in METHODS:
            if any(self._method_if_available(i, method) != self.methods[i] for i in members):
                yield method

    def _method_if_available(self, index: int, method: str) -> str:
        """The method if the group has it as a candidate, else the group's current method."""
        return method if method in self.candidates[index].params else self.methods[index]

    def _by_scale_ratio(self, members: Iterable[int]) -> list[int]:
        return sorted(members, key=lambda i: (-self.candidates[i].scale_ratio, i))

    def _measure(self, methods: Sequence[str]) -> NDArray[np.float64]:
        """The error of each sample; NaN for the samples after a rejection."""
        key = tuple(methods)
        if key not in self.known:
            errors = self._evaluate(methods, self.errors if self.errors.size else None)
            if self._is_promising(errors) and self._add_samples():
                self.errors = self._evaluate(self.methods, known=self.errors)
                self.start = self._evaluate([FALLBACK_METHOD] * len(self.methods), known=self.start)
                self.known = {tuple(self.methods): self.errors}  # the others have fewer samples
                errors = self._evaluate(methods, self.errors, errors)
            self.known[key] = errors
        return self.known[key]

    def _is_promising(self, errors: NDArray[np.float64]) -> bool:
        """Whether errors are probably lower than the current ones, so that more samples should decide."""
        return bool(self.errors.size) and is_significantly_lower(
            errors, self.errors, standard_errors=_PROMISING
        )

    def _add_samples(self) -> bool:
        """Evaluate on the samples of the next stage too; whether there are any."""
        if not self.stages:
            return False
        before = self.evaluator.count
        for fold, samples in enumerate(self.stages.pop(0)):
            added = list(samples)
            self.evaluator.extend(added, [fold] * len(added))
        return self.evaluator.count > before

    def _evaluate(
        self,
        methods: Sequence[str],
        than: NDArray[np.float64] | None = None,
        known: NDArray[np.float64] | Sequence[float] = (),
    ) -> NDArray[np.float64]:
        """The error of each sample, from the largest current one; NaN for the samples after a rejection."""
        pairs = list(zip(self.candidates, methods, strict=True))
        chosen = [
            {n: c.params[method][fold] for c, method in pairs for n in c.group.tensors}
            for fold in range(self.evaluator.folds)
        ]
        return self.evaluator.errors(chosen, than, self.effort.range_checks, known)

    def _try_method(self, members: Iterable[int], method: str) -> None:
        before = list(self.methods)
        after = list(before)
        for index in members:
            after[index] = self._method_if_available(index, method)
        errors = self._measure(after)
        better = is_significantly_lower(errors, self.errors)
        kept, other = (errors, self.errors) if better else (self.errors, errors)
        for index in members:
            if after[index] != before[index]:
                runner_up = before[index] if better else after[index]
                self._compare(index, runner_up, kept, other)
        if better:
            self.methods, self.errors = after, errors

    def _compare(
        self, index: int, method: str, kept: NDArray[np.float64], other: NDArray[np.float64]
    ) -> None:
        """Record a rejected method with its errors, if it is the nearest so far."""
        found = _RejectedMethod(method, kept, other)
        known = self.rejected.get(index)
        if known is None or known.method == self.methods[index] or found.loss_db < known.loss_db:
            self.rejected[index] = found

    def chosen_methods(self) -> dict[str, ChosenMethod]:
        """The method of each tensor, with the comparison that decided it."""
        found = {}
        for index, (candidate, method) in enumerate(
            zip(self.candidates, self.methods, strict=True)
        ):
            detail = method
            if index in self.rejected:
                detail = f"{method}; {self.rejected[index]}"
            found.update(dict.fromkeys(candidate.group.tensors, ChosenMethod(method, detail)))
        return found

    def note(self) -> str:
        """The result in a sentence; empty if nothing was measured."""
        if not self.evaluator.runs:
            return ""
        counts = {m: self.methods.count(m) for m in METHODS if m in self.methods}
        chosen = ", ".join(f"{count} × {method}" for method, count in counts.items())
        basis = plural(self.evaluator.count, "sample")
        if self.evaluator.folds > 1:
            basis += ", cross-validated"
        note = f"ranges: {chosen}, chosen by output error ({basis})"
        if list(counts) != [FALLBACK_METHOD]:
            gain = to_error_db(self.start.mean()) - to_error_db(self.errors.mean())
            note += f"; output error {gain:.1f} dB lower than with {FALLBACK_METHOD} only"
        return note
