"""Trials of float nodes: quantize a model with some nodes in float, and measure its accuracy drop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.data.labelling import Labelling
from ptq.evaluation.batching.batch_size import choose_batch
from ptq.evaluation.drop import Drop
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.runs.engines import Engine, make_session_engine, open_session_engine
from ptq.evaluation.runs.session_cache import open_float_session
from ptq.evaluation.tasks.task import NO_LABELS, TaskLabels, TaskName, TaskRequest
from ptq.evaluation.user_metric import Metric
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.session import Session
from ptq.optimization.mixed_precision.attribution.error_attribution import SAMPLES
from ptq.solver.quantizer import CalibratedModel, QuantizedModel, quantize_with
from ptq.solver.recipe import Recipe

MAX_SAMPLES = 512
"""Samples that are held in memory."""


class Trials:
    """Quantizes a model with some nodes in float, and measures accuracy drops against the float model.

    Attributes:
        model: The calibrated float model.
        recipe: How it is quantized.
        samples: The samples that drops are measured on.
        count: How many models were measured.
        engine: The float model.
        outputs: Names of its outputs, in order.
    """

    def __init__(
        self,
        model: CalibratedModel,
        recipe: Recipe,
        samples: Sequence[Sample],
        *,
        metric: Metric | None = None,
        task: TaskName | None = None,
        labels: TaskLabels = NO_LABELS,
        labelling: Callable[[], Labelling] | None = None,
        run: RunOptions,
    ) -> None:
        """Open the float model; nodes that the recipe keeps in float stay float."""
        self.model, self.recipe, self.samples = model, recipe, samples
        self.count = 0
        self._metric, self._labelling, self._run = metric, labelling, run
        self._task = TaskRequest.from_graph(task, model.source, labels)
        self._batch = choose_batch(run, model.source)
        self.outputs = [get_name(v) for v in model.source.outputs]
        self.engine = make_session_engine(open_float_session(model, run))
        self._reference: list[list[NDArray[Any]]] = []

    def quantize(self, floats: Mapping[str, str], *, wide: bool = False) -> QuantizedModel:
        """The model quantized with more nodes in float, or in 16 bits if ``wide``, each with the reason."""
        recipe = self.recipe
        recipe = recipe.with_wide_nodes(floats) if wide else recipe.with_float_nodes(floats)
        return quantize_with(self.model, recipe)

    def measure(self, graph: Graph) -> tuple[Drop, float]:
        """The accuracy drop of a quantized model, and its SQNR in decibels."""
        return drop_and_sqnr(self.evaluate(graph))

    def evaluate(self, graph: Graph) -> Evaluation:
        """A quantized model, compared with the float model."""
        self.count += 1
        quantized = make_session_engine(Session(graph, threads=self._run.threads))
        return evaluate_engines(
            self._reference_engine(), {"int8": quantized}, self.samples, self.outputs,
            batch=self._batch, metric=self._metric, task=self._task, labelling=self._labelling,
            openers=[None, partial(open_session_engine, graph, self._run.for_job())], run=self._run,
        )  # fmt: skip

    def _reference_engine(self) -> Engine:
        """The float model for one pass over the samples; it runs in the first pass only."""
        if not self._reference:
            return self._record
        recorded = iter(self._reference)
        return lambda _: next(recorded)

    def _record(self, feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        self._reference.append(self.engine(feed))
        return self._reference[-1]


def drop_and_sqnr(result: Evaluation) -> tuple[Drop, float]:
    """The accuracy drop of the quantized model of an evaluation, and its SQNR in decibels."""
    form = result.forms["int8"]
    assert form.drop is not None
    return form.drop, form.outputs[result.head].sqnr_db


def select_evenly(samples: Sequence[Sample], count: int = SAMPLES) -> list[Sample]:
    """At most so many samples, by default those for error attribution, evenly spread over all samples."""
    count = min(count, len(samples))
    return [samples[k * len(samples) // count] for k in range(count)]
