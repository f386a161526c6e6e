"""Comparison of rewritten forms of a model by their output error after quantization.

In a small network one choice of scales can be a decibel better than another by chance, on all samples in the same
way. More samples do not remove this chance. Different range methods give different scales. A candidate is therefore
evaluated with every range method that can be chosen later, and the mean gain in decibels counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import collect_statistics
from ptq.core.decibels import error_db
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.wording import plural
from ptq.data import Samples
from ptq.model.graph import Graph
from ptq.model.node import constant_of
from ptq.model.session import Session
from ptq.observers.input_means import InputMean, input_means
from ptq.optimization.output_error import OutputError
from ptq.optimization.range_candidates import METHODS
from ptq.optimization.significance import is_significantly_lower
from ptq.rewrite.emit.bias_correction import correct_biases
from ptq.rewrite.emit.set_weights import replace_weights
from ptq.rewrite.instrument.adjustable_scales import make_scales_inputs
from ptq.rewrite.instrument.logits import logits_graph
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import AUTO, Recipe

_CALIBRATION_SAMPLES = 32
"""Samples that set the ranges of a candidate."""
_HELD_OUT_SAMPLES = 64
"""Held-out samples that evaluate, and as many training samples."""
_WEIGHT_ERROR_LEFT = 0.3
"""The share of the round-to-nearest weight error that second-order rounding leaves: measured 0.1 to 0.4."""
_STANDARD_ERRORS = 2.0
"""Standard errors by which the error must be lower; there are only a few candidates."""
_MAX_UNROUNDED_ERROR = 0.01
"""The highest error of a candidate before rounding, on held-out samples, as a share of the rounding error. A channel
that exceeds its bound on held-out samples exceeds it by more on others."""


class CandidateComparison:
    """Quantizes candidates and compares their outputs with the float model's.

    Rounding errors of a few outputs vary much by chance, so all samples decide whether the error is lower. It must
    also be lower on held-out samples, which show what the extremes of the training samples clip. And it must be
    lower with the best method of each form.
    """

    def __init__(
        self,
        name: str,
        prepared: PreparedModel,
        recipe: Recipe,
        training: Samples,
        held_out: Samples,
        run: RunOptions,
    ) -> None:
        """Set up a comparison with a plain model.

        Args:
            name: The name of the model.
            prepared: The plain model.
            recipe: How the model is quantized.
            training: The samples that the candidates were made from.
            held_out: Samples that no candidate depends on.
            run: How the job runs.
        """
        self._name, self._prepared, self._recipe = name, prepared, recipe
        self._methods = METHODS if recipe.method == AUTO else (recipe.method,)
        self._held_out, self._training, self._run = held_out, training, run

    def select_best(self, candidates: Iterable[PreparedModel]) -> PreparedModel:
        """The candidate with the least error if it is significantly lower, else the plain model; with a note.

        Args:
            candidates: The rewritten models, each with one sentence in ``notes``.

        Raises:
            DataError: A sample is unreadable, does not fit, or the model fails on it.
        """
        forms = [*candidates]
        if not forms:
            return self._prepared
        steps = (1 + len(forms)) * (1 + len(self._methods))
        advance = self._run.start_stage("comparing forms", steps)
        plain_errors = self._errors(self._prepared, advance)
        plain = _geometric_mean(plain_errors)
        most = _MAX_UNROUNDED_ERROR * plain.mean()
        forms = [form for form in forms if self._unrounded_error(form) <= most]
        if not forms:
            return self._not_applied("channels exceed their Clip bounds on held-out samples")
        errors = [(form, self._errors(form, advance)) for form in forms]
        form, form_errors = min(errors, key=lambda pair: float(_geometric_mean(pair[1]).mean()))
        least = _geometric_mean(form_errors)
        held_out = [e[: self._held_out_count or None].mean() for e in (plain, least)]
        figures = "SQNR {:.1f} → {:.1f} dB".format(*(-error_db(share) for share in held_out))
        basis = "on held-out samples"
        if len(self._methods) > 1:
            basis += f", mean of {plural(len(self._methods), 'range method')}"
        lower = (
            held_out[1] < held_out[0]
            and form_errors.mean(axis=1).min() < plain_errors.mean(axis=1).min()
        )
        if lower and is_significantly_lower(least, plain, standard_errors=_STANDARD_ERRORS):
            [note] = form.notes
            note = f"{note}; {figures} {basis}"
            return replace(
                form, changes=self._prepared.changes, notes=(*self._prepared.notes, note)
            )
        return self._not_applied(f"{figures} {basis}: gain not significant")

    def _not_applied(self, reason: str) -> PreparedModel:
        note = f"equalization: not applied ({reason})"
        return replace(self._prepared, notes=(*self._prepared.notes, note))

    @property
    def _held_out_count(self) -> int:
        """How many of the evaluating samples are held out; they come first."""
        return min(len(self._held_out), _HELD_OUT_SAMPLES)

    @cached_property
    def _output_error(self) -> OutputError:
        samples = itertools.chain(
            self._held_out.spread(_HELD_OUT_SAMPLES), self._training.spread(_HELD_OUT_SAMPLES)
        )
        return OutputError(logits_graph(self._prepared.graph), samples, self._run)

    def _unrounded_error(self, form: PreparedModel) -> float:
        """The error of a candidate before rounding, against the plain model, on held-out samples."""
        session = Session(logits_graph(form.graph), threads=self._run.threads)
        errors = self._output_error.errors(session, {}, range(self._held_out_count))[
            : self._held_out_count
        ]
        return float(errors.mean()) if errors.size else 0.0

    def _errors(self, form: PreparedModel, advance: Callable[[], None]) -> NDArray[np.float64]:
        """The error of each method and sample: by activations, plus a share of that by weights."""
        graph, run = logits_graph(form.graph), self._run
        statistics = collect_statistics(graph, self._training.spread(_CALIBRATION_SAMPLES), run=run)
        model = CalibratedModel(self._name, graph, replace(form, graph=graph), statistics)
        recipe = self._recipe.with_float_nodes(form.float_nodes)
        plans = [solve_plan(model, replace(recipe, method=m)) for m in self._methods]
        adjustable = make_scales_inputs(graph, plans[0], plans[0].tensors)
        session = Session.for_range_search(adjustable.graph, threads=run.threads)
        of_activations = []
        for plan in plans:
            of_activations.append(self._output_error.errors(session, adjustable.feed(plan.tensors)))
            advance()
        means = input_means(statistics, plans[0].tensors) if self._recipe.correct_bias else {}
        weights_only = Session(_with_rounded_weights(graph, plans[0], means), threads=run.threads)
        of_weights = self._output_error.errors(weights_only, {})
        advance()
        return np.stack(of_activations) + _WEIGHT_ERROR_LEFT * of_weights


def _geometric_mean(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The geometric mean of the methods' errors, for each sample."""
    product: NDArray[np.float64] = np.prod(errors ** (1 / len(errors)), axis=0)
    return product


def _with_rounded_weights(graph: Graph, plan: Plan, means: dict[str, InputMean]) -> Graph:
    """The graph with weights rounded to the nearest, and biases corrected for that where input means are given."""
    weights = {}
    for node in graph.nodes:
        weight = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
        params = plan.operands.get((node.name or "", 1))
        if weight is not None and params is not None:
            rounded = params.dequantize(params.quantize(weight))
            weights[node.name or ""] = rounded.astype(weight.dtype)
    float_means = {name: replace(mean, mean_shift=0.0) for name, mean in means.items()}
    corrected, _ = correct_biases(graph, plan, float_means, weights)
    return replace_weights(corrected, weights)
