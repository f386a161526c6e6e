"""Which range method suits which tensor, judged by the error that it causes in the model's outputs?

All activations are rounded, weights are not; one model serves every choice of ranges, its scales being inputs. From
the one method that does best for all tensors, the tensors that one operator writes are turned to another method, then
single ones: first those whose range the methods least agree on. Every sample judges ranges that others set. What
lowers the outputs' error by more than chance is kept; of probabilities it is the error of the scores that they are
made of. Graph outputs, and what a monotone function makes them of, keep their extremes: order matters there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import Fold
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.core.targets import Target, get_target
from ptq.core.types import QuantParams
from ptq.evaluation.intervals import bootstrap_sums
from ptq.model.node import consumers_of, name_of, operator_of
from ptq.observers import OBSERVERS
from ptq.optimization.output_error import RangeEvaluator, error_db
from ptq.rewrite.equalize.boundary_scales import is_channel_scaling
from ptq.rewrite.instrument.logits import logits_of
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import AUTO, FALLBACK_METHOD, ChosenMethod, Recipe
from ptq.solver.scales.group_qparams import group_qparams
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups
from ptq.solver.solve import assign_precision_and_groups

METHODS = (FALLBACK_METHOD, "minmax", "percentile")
MAX_RUNS = 24
_MOST, _PLAIN = 0.95, 0.5
"""Of the error, the most that another method may leave to be taken: if by most samples, if by some alone."""
STANDARD_ERRORS = 3.0
"""Standard errors by which the samples' errors, in decibels, must then be less, where many things are tried."""
_SCALE_TOLERANCE = 0.02
"""Scales that differ by less are as good as the same."""
_MONOTONE = frozenset(["Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid", "Tanh"])
OUTPUT_REASON = "minmax, as order matters in an output"
SAME_REASON = "mse, much the same as by other methods"


def choose_ranges(
    ground: CalibratedModel,
    recipe: Recipe,
    folds: Sequence[Fold],
    *,
    run: RunOptions = DEFAULT_RUN,
) -> Recipe:
    """The recipe with the range method of every scale group; as it is where one method is asked for.

    Raises:
        StatsError: A tensor that needs a range was not observed.
        DataError: The model fails on a sample; the text names it.
    """
    if recipe.method != AUTO:
        return recipe
    graph, row, stats = ground.prepared.graph, get_target(recipe.target), ground.calibration
    groups = assign_precision_and_groups(graph, stats.tensors, row, recipe.float_nodes)[1]
    free = [group for group in groups.to_groups() if _is_choosable(group, groups)]
    scored = {name_of(part) for output in graph.outputs for part in logits_of(output)}
    heads = [group for group in free if _is_output_group(group, groups, scored)]
    chosen = {
        name: ChosenMethod("minmax", OUTPUT_REASON) for group in heads for name in group.tensors
    }
    recipe = replace(recipe, chosen_methods=chosen)
    if not folds:
        return recipe
    candidates = [
        _group_candidates(group, groups, folds, row) for group in free if group not in heads
    ]
    open_ones = [c for c in candidates if len(c.params) > 1]
    plan = solve_plan(ground, recipe)
    names = [n for c in open_ones for n in c.group.tensors if n in plan.tensors]
    advance = run.start_stage("choosing ranges", None)
    judge = RangeEvaluator(graph, plan, names, folds, run, advance)
    search = _RangeSearch(open_ones, judge)
    search.run()
    chosen |= {
        n: ChosenMethod(FALLBACK_METHOD, SAME_REASON) for c in candidates for n in c.group.tensors
    }
    chosen |= search.chosen_methods()
    return replace(recipe, chosen_methods=chosen, range_note=search.note())


def _is_choosable(group: ScaleGroup, groups: ScaleGroups) -> bool:
    values = [groups.values[name] for name in group.observed_tensors]
    return group.fixed_qparams is None and any(value.const_value is None for value in values)


def _is_output_group(group: ScaleGroup, groups: ScaleGroups, scored: Collection[str]) -> bool:
    """Whether a graph output is among the tensors, or a monotone function of one of them."""
    for name in group.tensors:
        value = groups.values[name]
        if name in scored or value.is_graph_output():
            return True
        for reader in consumers_of(value):
            out = reader.outputs[0]
            if operator_of(reader) in _MONOTONE and out.is_graph_output():
                return True
            if is_channel_scaling(reader) and (name_of(out) in scored or out.is_graph_output()):
                return True
    return False


@dataclass(frozen=True, eq=False)
class _GroupCandidates:
    """A scale group and its parameters by method, one for each fold; methods alike are left out."""

    group: ScaleGroup
    kind: str
    params: Mapping[str, Sequence[QuantParams]]

    @property
    def scale_ratio(self) -> float:
        """How far apart the scales are at most, as a ratio."""
        by_fold = zip(*self.params.values(), strict=True)
        scales = [[float(params.scale) for params in of] for of in by_fold]
        return max(max(of) / min(of) for of in scales)


def _group_candidates(
    group: ScaleGroup, groups: ScaleGroups, folds: Sequence[Fold], row: Target
) -> _GroupCandidates:
    params: dict[str, list[QuantParams]] = {}
    for method in METHODS:
        found = [
            group_qparams(group, groups, fold.calibration.tensors, OBSERVERS[method], row)
            for fold in folds
        ]
        if not any(all(map(_are_similar, found, other)) for other in params.values()):
            params[method] = found
    writer = groups.values[group.observed_tensors[0]].producer()
    return _GroupCandidates(group, "input" if writer is None else operator_of(writer), params)


def _are_similar(one: QuantParams, other: QuantParams) -> bool:
    near = abs(math.log(float(one.scale) / float(other.scale))) < _SCALE_TOLERANCE
    return near and abs(int(one.zero_point) - int(other.zero_point)) <= 1


@dataclass(frozen=True, eq=False)
class _RejectedMethod:
    """A method that was not taken.

    Attributes:
        method: It.
        kept: The errors by sample with what was kept instead.
        other: With this; NaN of samples that were not run, as the error was known not to be the less.
    """

    method: str
    kept_errors: NDArray[np.float64]
    rejected_errors: NDArray[np.float64]

    @property
    def loss_db(self) -> float:
        """By how many decibels the error is more, at least."""
        kept, other = (
            self.kept_errors.mean(),
            np.nansum(self.rejected_errors) / self.rejected_errors.size,
        )
        return error_db(other) - error_db(kept) if kept or other else 0.0

    def __str__(self) -> str:
        """What it would have done, in words."""
        how = "more" if self.loss_db >= 0 else "less, which may be chance"
        figure = f"{abs(self.loss_db):.2f} dB {how}"
        if np.isnan(self.rejected_errors).any():
            figure = f"at least {figure}" if self.loss_db >= 0 else "much the same, or more"
        return f"by {self.method} the outputs' error is {figure}"


@dataclass
class _RangeSearch:
    """Turns sets of scale groups from one method to another as long as that lowers the error."""

    candidates: Sequence[_GroupCandidates]
    evaluator: RangeEvaluator
    methods: list[str] = field(default_factory=list)
    rejected: dict[int, _RejectedMethod] = field(default_factory=dict)
    known: dict[tuple[str, ...], NDArray[np.float64]] = field(default_factory=dict)
    errors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def run(self) -> None:
        """All at once, by operator, one by one."""
        everything = range(len(self.candidates))
        self.methods = [FALLBACK_METHOD for _ in everything]
        if not self.candidates or not self.evaluator.count:
            return
        self.start = self.errors = self._measure(self.methods)
        for method in self._changing_methods(everything):
            self._try_method(everything, method)
        kinds: dict[str, list[int]] = {}
        for index in self._by_scale_ratio(everything):
            kinds.setdefault(self.candidates[index].kind, []).append(index)
        sets = [members for members in kinds.values() if len(members) < len(self.candidates)]
        for members in (*sets, *([index] for index in self._by_scale_ratio(everything))):
            for method in self._changing_methods(members):
                if self.evaluator.runs >= MAX_RUNS:
                    return
                self._try_method(members, method)

    def _changing_methods(self, members: Iterable[int]) -> Iterator[str]:
        """The methods that would change something."""
        members = list(members)
        for method in METHODS:
            if any(self._method_if_available(i, method) != self.methods[i] for i in members):
                yield method

    def _method_if_available(self, index: int, method: str) -> str:
        """The method where the group has it as a candidate of its own, else what it has."""
        return method if method in self.candidates[index].params else self.methods[index]

    def _by_scale_ratio(self, members: Iterable[int]) -> list[int]:
        return sorted(members, key=lambda i: (-self.candidates[i].scale_ratio, i))

    def _measure(self, methods: Sequence[str]) -> NDArray[np.float64]:
        key = tuple(methods)
        if key not in self.known:
            pairs = list(zip(self.candidates, methods, strict=True))
            chosen = [
                {n: c.params[method][fold] for c, method in pairs for n in c.group.tensors}
                for fold in range(self.evaluator.folds)
            ]
            self.known[key] = self._evaluate(chosen)
        return self.known[key]

    def _evaluate(self, chosen: Sequence[Mapping[str, QuantParams]]) -> NDArray[np.float64]:
        """The errors; those of further samples are left NaN once they are sure not to be the less."""
        if not self.errors.size:
            return self.evaluator.errors(chosen)
        order = np.argsort(-self.errors, kind="stable").tolist()
        return self.evaluator.errors(chosen, order, _MOST * float(self.errors.sum()))

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
        """Note a method that did worse, and by how much, if it came nearest."""
        found = _RejectedMethod(method, kept, other)
        known = self.rejected.get(index)
        if known is None or known.method == self.methods[index] or found.loss_db < known.loss_db:
            self.rejected[index] = found

    def chosen_methods(self) -> dict[str, ChosenMethod]:
        """By tensor, the method and what it was held against."""
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
        """What was found, a sentence."""
        if not self.evaluator.runs:
            return ""
        counts = {m: self.methods.count(m) for m in METHODS if m in self.methods}
        set_by = ", each with ranges that others set" if self.evaluator.folds > 1 else ""
        said = ", ".join(f"{count} by {method}" for method, count in counts.items())
        won = error_db(self.start.mean()) - error_db(self.errors.mean())
        gain = (
            f"; {won:.1f} dB below that of {FALLBACK_METHOD} alone"
            if list(counts) != [FALLBACK_METHOD]
            else ""
        )
        on = f"{self.evaluator.count} calibration samples{set_by}"
        return f"chose {len(self.methods)} ranges by the outputs' error on {on}: {said}{gain}"


def is_significantly_lower(
    errors: NDArray[np.float64], than: NDArray[np.float64], *, sure: float = STANDARD_ERRORS
) -> bool:
    """Whether the error is less by more than chance, that many standard errors.

    Where a few samples make most of it, as clipped outliers do, it is by these alone, if as surely.
    """
    if np.isnan(errors).any():
        return False  # known to be more already, as all samples were not run
    left = errors.mean() / than.mean() if than.any() else 1.0
    usable = (errors > 0) & (than > 0)
    if left > _MOST or usable.sum() < 2:
        return False
    ratios = np.log(errors[usable] / than[usable])
    if ratios.mean() + sure * ratios.std(ddof=1) / math.sqrt(ratios.size) < 0:
        return True
    drawn = bootstrap_sums(np.stack([errors, than], axis=1))
    less = (drawn[:, 0] < _MOST * drawn[:, 1]).mean()
    return bool(left < _PLAIN and less >= (1 + math.erf(sure / math.sqrt(2))) / 2)
