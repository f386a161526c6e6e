"""Which of a model's forms errs least once it is rounded, whichever range method is chosen for it then?

Of a small network one choice of scales comes out a decibel better or worse than another by chance, on all samples
alike, so that no number of samples tells it from the form's own doing. Other range methods are other scales: a form
is judged by all that may be chosen, and what the mean of their decibels gains is the form's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import collect_statistics
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.wording import plural
from ptq.data import Samples
from ptq.model.graph import Graph
from ptq.model.node import constant_of
from ptq.model.session import Session
from ptq.observers.input_means import InputMean, input_means
from ptq.optimization.output_error import ReferenceOutputs, error_db
from ptq.optimization.range_search import METHODS, is_significantly_lower
from ptq.rewrite.emit.bias_correction import correct_biases
from ptq.rewrite.emit.set_weights import replace_weights
from ptq.rewrite.instrument.adjustable_scales import make_scales_inputs
from ptq.rewrite.instrument.logits import logits_graph
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import AUTO, Recipe

_CALIBRATION_SAMPLES = 32  # samples, to set a trial's ranges
_HELD_OUT_SAMPLES = 64  # held-out ones, and as many of the others
_WEIGHT_ERROR_LEFT = 0.3
"""Of the error that weights make, rounded to the nearest, what second-order rounding leaves: 0.1 to 0.4, measured."""
_STANDARD_ERRORS = 2.0  # standard errors by which the error must be less; few things are tried
_MAX_UNROUNDED_ERROR = 0.01
"""Of the error of rounding, the most that a form may err on held-out samples before anything is rounded: where a
channel goes past its bound there, it will go further past on others."""


class CandidateComparison:
    """Rounds a model in several forms and compares their outputs with float's.

    Roundings of a few outputs differ by much chance, so all samples tell whether the error is less; of those held
    out, which would show what the others' extremes cut off, it must be less too, and by the method that suits a form
    best.
    """

    def __init__(
        self,
        name: str,
        prepared: PreparedModel,
        recipe: Recipe,
        learnt: Samples,
        held: Samples,
        run: RunOptions,
    ) -> None:
        """Say what will be judged by what.

        Args:
            name: What the model is called.
            prepared: It.
            recipe: What will be asked.
            learnt: The samples that its forms were made by.
            held: Others.
            run: How the job runs.
        """
        self._name, self._prepared, self._recipe = name, prepared, recipe
        self._methods = METHODS if recipe.method == AUTO else (recipe.method,)
        self._held, self._others, self._run = held, learnt, run

    def select_best(self, tried: Iterable[PreparedModel]) -> PreparedModel:
        """The form that errs least, if by more than chance, or the plain model; with a sentence on the gain.

        Args:
            tried: The forms, each with what was done, one sentence.

        Raises:
            DataError: A sample is unreadable, does not fit, or the model fails on it.
        """
        forms, changes = [*tried], self._prepared.changes
        if not forms:
            return self._prepared
        steps = (1 + len(forms)) * (1 + len(self._methods))
        advance = self._run.start_stage("comparing forms", steps)
        before = self._errors(self._prepared, advance)
        plain = _geometric_mean(before)
        forms = [
            form
            for form in forms
            if self._unrounded_error(form) <= _MAX_UNROUNDED_ERROR * plain.mean()
        ]
        if not forms:
            left = "left channels unequal: on held-out samples they go past their bounds"
            return replace(self._prepared, changes=(*changes, left))
        errors = [(form, self._errors(form, advance)) for form in forms]
        form, found = min(errors, key=lambda pair: float(_geometric_mean(pair[1]).mean()))
        least = _geometric_mean(found)
        held = [e[: self._held_out_count or None].mean() for e in (plain, least)]
        figures = "{:.1f} → {:.1f} dB".format(*(-error_db(share) for share in held))
        said = f"signal over error on held-out samples {figures}"
        if len(self._methods) > 1:
            said += f", the mean of {plural(len(self._methods), 'range method')}"
        less = held[1] < held[0] and found.mean(axis=1).min() < before.mean(axis=1).min()
        if less and is_significantly_lower(least, plain, sure=_STANDARD_ERRORS):
            [note] = form.changes
            return replace(form, changes=(*changes, f"{note}: {said}"))
        return replace(self._prepared, changes=(*changes, f"left channels unequal: {said}"))

    @property
    def _held_out_count(self) -> int:
        """How many held-out samples are judged on, the first of all."""
        return min(len(self._held), _HELD_OUT_SAMPLES)

    @cached_property
    def _reference(self) -> ReferenceOutputs:
        judges = itertools.chain(
            self._held.spread(_HELD_OUT_SAMPLES), self._others.spread(_HELD_OUT_SAMPLES)
        )
        return ReferenceOutputs(logits_graph(self._prepared.graph), judges, self._run)

    def _unrounded_error(self, form: PreparedModel) -> float:
        """How far the form is from the plain model before anything is rounded, on held-out samples."""
        session = Session(logits_graph(form.graph), threads=self._run.threads)
        errors = self._reference.errors(session, {}, range(self._held_out_count))[
            : self._held_out_count
        ]
        return float(errors.mean()) if errors.size else 0.0

    def _errors(self, form: PreparedModel, advance: Callable[[], None]) -> NDArray[np.float64]:
        """By method and sample, of activations and of weights; the latter counts for less than it is."""
        graph, run = logits_graph(form.graph), self._run
        statistics = collect_statistics(graph, self._others.spread(_CALIBRATION_SAMPLES), run=run)
        ground = CalibratedModel(self._name, graph, replace(form, graph=graph), statistics)
        recipe = self._recipe.with_float_nodes(form.float_nodes)
        plans = [solve_plan(ground, replace(recipe, method=m)) for m in self._methods]
        made = make_scales_inputs(graph, plans[0], plans[0].tensors)
        session = Session.for_range_search(made.graph, threads=run.threads)
        of_activations = []
        for plan in plans:
            of_activations.append(self._reference.errors(session, made.feed(plan.tensors)))
            advance()
        means = input_means(statistics, plans[0].tensors) if self._recipe.correct_bias else {}
        lighter = Session(_with_rounded_weights(graph, plans[0], means), threads=run.threads)
        of_weights = self._reference.errors(lighter, {})
        advance()
        return np.stack(of_activations) + _WEIGHT_ERROR_LEFT * of_weights


def _geometric_mean(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """By sample, the geometric mean of the methods' errors."""
    product: NDArray[np.float64] = np.prod(errors ** (1 / len(errors)), axis=0)
    return product


def _with_rounded_weights(graph: Graph, plan: Plan, means: dict[str, InputMean]) -> Graph:
    """The graph with each weight rounded to the nearest, and the biases corrected for that where means are known."""
    weights = {}
    for node in graph.nodes:
        weight = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
        params = plan.operands.get((node.name or "", 1))
        if weight is not None and params is not None:
            rounded = params.dequantize(params.quantize(weight))
            weights[node.name or ""] = rounded.astype(weight.dtype)
    alone = {name: replace(mean, mean_shift=0.0) for name, mean in means.items()}
    corrected, _ = correct_biases(graph, plan, alone, weights)
    return replace_weights(corrected, weights)
