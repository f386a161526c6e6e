"""Comparison of rewritten forms of a model by their output error after quantization.

Cross-validation compares them: the ranges that three quarters of the samples set are evaluated on the last quarter.
Each form counts with the range method that suits it best, as the search for range methods would choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ptq.calibration.calibration import Fold, collect_in_folds
from ptq.core.decibels import error_db
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.wording import plural
from ptq.data import Samples
from ptq.model.graph import Graph
from ptq.model.node import constant_of
from ptq.model.session import Session
from ptq.observers.input_means import InputMean, input_means
from ptq.optimization.output_error import OutputError, RangeEvaluator
from ptq.optimization.range_candidates import METHODS
from ptq.optimization.range_search import find_candidates
from ptq.optimization.significance import MAX_ERROR_RATIO
from ptq.rewrite.emit.bias_correction import correct_biases
from ptq.rewrite.emit.set_weights import replace_weights
from ptq.rewrite.instrument.logits import logits_graph
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import AUTO, Recipe

SAMPLES = 128
"""Samples that compare. The scales of a small network turn its error by half a decibel by chance with 64."""
_WEIGHT_ERROR_LEFT = 0.3
"""The share of the round-to-nearest weight error that second-order rounding leaves: measured 0.1 to 0.4."""


class CandidateComparison:
    """Quantizes candidates, compares their outputs with the float model's, and keeps the one with the least error."""

    def __init__(
        self,
        name: str,
        prepared: PreparedModel,
        recipe: Recipe,
        samples: Samples,
        run: RunOptions,
    ) -> None:
        """Set up a comparison with a plain model.

        Args:
            name: The name of the model.
            prepared: The plain model.
            recipe: How the model is quantized.
            samples: Calibration samples.
            run: How the job runs.
        """
        self._name, self._prepared, self._recipe = name, prepared, recipe
        self._methods = METHODS if recipe.method == AUTO else (recipe.method,)
        self._samples, self._run = samples.spread(SAMPLES), run
        self._reference: OutputError | None = None

    def select_best(self, candidates: Iterable[PreparedModel]) -> PreparedModel:
        """The candidate with the least error if it is lower than the plain model's, else that; with a note.

        Quantizers that scale channels take time; the error of a candidate with them must be 5 % lower.

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
        plain = self._least_error(self._prepared, advance)
        errors = [self._least_error(form, advance) for form in forms]
        advance.end()
        required = [1 / MAX_ERROR_RATIO if form.boundaries else 1.0 for form in forms]
        best = min(range(len(forms)), key=lambda k: errors[k] * required[k])
        least = errors[best]
        basis = f"{plural(len(self._samples), 'sample')}, cross-validated"
        figures = f"SQNR {-error_db(plain):.1f} → {-error_db(least):.1f} dB on {basis}"
        if not least * required[best] < plain:
            note = f"equalization: not applied ({figures})"
            return replace(self._prepared, notes=(*self._prepared.notes, note))
        [note] = forms[best].notes
        notes = (*self._prepared.notes, f"{note}; {figures}")
        return replace(forms[best], changes=self._prepared.changes, notes=notes)

    def _least_error(self, form: PreparedModel, advance: Callable[[], None]) -> float:
        """The output error of a form with its best range method: by activations, plus a share of that by weights."""
        graph, run = form.graph, self._run
        calibration, folds = collect_in_folds(graph, self._samples, run=run)
        model = CalibratedModel(self._name, graph, form, calibration)
        recipe, candidates = find_candidates(
            model, self._recipe.with_float_nodes(form.float_nodes), folds
        )
        plan = solve_plan(model, recipe)
        names = [n for c in candidates for n in c.group.tensors if n in plan.tensors]
        reference = self._open_reference(folds)
        evaluator = RangeEvaluator(graph, plan, names, folds, reference, run, advance)
        of_activations = []
        for method in self._methods:
            by_group = [
                (c.group, c.params.get(method, c.params[self._methods[0]])) for c in candidates
            ]
            params = [
                {name: by_fold[fold] for group, by_fold in by_group for name in group.tensors}
                for fold in range(len(folds))
            ]
            of_activations.append(float(evaluator.errors(params).mean()))
        means = input_means(calibration, plan.tensors) if recipe.correct_bias else {}
        rounded = _with_rounded_weights(logits_graph(graph), plan, means)
        of_weights = reference.errors(Session(rounded, threads=run.threads), {})
        advance()
        return min(of_activations) + _WEIGHT_ERROR_LEFT * float(of_weights.mean())

    def _open_reference(self, folds: Sequence[Fold]) -> OutputError:
        """The plain float model on the samples of the folds; it runs once."""
        if self._reference is None:
            graph = self._prepared.graph
            self._reference = OutputError.of_folds(graph, folds, SAMPLES, self._run)
        return self._reference


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
