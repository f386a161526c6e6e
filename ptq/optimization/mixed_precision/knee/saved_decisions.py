"""Decisions that float nodes save: counted with them and with all in integers, on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.wording import plural
from ptq.evaluation.intervals import Interval, bootstrap_sums, compute_percentile_interval
from ptq.evaluation.runs.model_outputs import ModelOutputs
from ptq.evaluation.tasks.task import Task
from ptq.model.graph import Graph
from ptq.optimization.job import Job
from ptq.optimization.mixed_precision.knee.decisions import (
    MAX_SAMPLES,
    MIN_CHANGED,
    CountedDecisions,
    compare_examples,
    run_examples,
)
from ptq.optimization.mixed_precision.knee.knee_sets import FloatSet
from ptq.optimization.preference import DECISION_FLOOR
from ptq.solver.quantizer import QuantizedModel, quantize_with

MAX_SPENT_ON_FEW = 0.05
"""The share of the all-int8 model's time above which float nodes must save `DECISION_FLOOR` of the decisions, and not
by chance."""


@dataclass(frozen=True)
class SavedDecisions:
    """Decisions of the float model that two quantized models change.

    Attributes:
        samples: Number of samples.
        total: Decisions of the float model.
        all_int8: Those that the model with all in integers changes.
        with_floats: Those that the model with the chosen float nodes changes.
        interval: 95 % interval of the saved share, paired over samples.
    """

    samples: int
    total: float
    all_int8: float
    with_floats: float
    interval: Interval

    @classmethod
    def from_rows(cls, rows: NDArray[np.float64]) -> SavedDecisions:
        """Count.

        Args:
            rows: Decisions that all in integers changes, that the float nodes leave changed, and all decisions, for
                each sample: shape (samples, 3).
        """
        sums = bootstrap_sums(rows)
        interval = compute_percentile_interval(
            (sums[:, 0] - sums[:, 1]) / np.maximum(sums[:, 2], 1)
        )
        all_int8, with_floats, total = map(float, rows.sum(axis=0))
        return cls(len(rows), total, all_int8, with_floats, interval)

    def justify(self, spent: float) -> bool:
        """Whether the float nodes save enough decisions: a single one is chance, and few are not worth much time.

        Args:
            spent: The time that they cost, as a share of the all-int8 model's.
        """
        saved = self.all_int8 - self.with_floats
        if spent > MAX_SPENT_ON_FEW and (
            saved < DECISION_FLOOR * self.total or self.interval[0] <= 0
        ):
            return False
        return saved >= MIN_CHANGED

    def describe(self) -> str:
        """The counts, for the reason of a node."""
        saved = self.all_int8 - self.with_floats
        return f"such nodes save {saved:.0f} of {self.total:.0f} decisions"

    def __str__(self) -> str:
        low, high = self.interval
        share = 100 * (self.all_int8 - self.with_floats) / max(self.total, 1)
        return (
            f"{self.with_floats:.0f} instead of {self.all_int8:.0f} of {self.total:.0f} decisions change on "
            f"{plural(self.samples, 'sample')} ({share:+.1f} points, 95 % CI {100 * low:+.1f} … {100 * high:+.1f})"
        )


def choose_by_decisions(
    job: Job,
    counted: CountedDecisions | None,
    quantized: QuantizedModel,
    sets: Sequence[FloatSet],
) -> tuple[FloatSet | None, SavedDecisions | None]:
    """The set of float nodes that saves enough decisions for its time, of the cheapest and the most expensive.

    The most expensive is taken where it saves `DECISION_FLOOR` of the decisions more; where samples hold equally many
    decisions, or none, it is not counted.

    Args:
        job: The job, with calibration samples.
        counted: The decisions that the sets were chosen by.
        quantized: The model with all in integers.
        sets: The sets; the cheapest first.

    Returns:
        The set, None if none saves enough; the decisions that it saves, or the most expensive if there is none.

    Raises:
        ModelError: ONNX Runtime does not take a model.
        DataError: A model fails on a sample.
    """
    ends = sets[:: max(1, len(sets) - 1)]
    if counted is None or not counted.vary:
        return ends[-1], None
    model = quantized.calibrated_model
    on_trial = [dict.fromkeys(sorted(end.floats), "on trial") for end in ends]
    others = [quantize_with(model, quantized.recipe, floats=floats) for floats in on_trial]
    graphs = [other.quantized_graph for other in others]
    saved = count_saved_decisions(job, counted.task, quantized.quantized_graph, graphs)
    enough = [found.justify(end.spent) for end, found in zip(ends, saved, strict=True)]
    more = saved[0].with_floats - saved[-1].with_floats
    if enough[0] and (not enough[-1] or more < max(MIN_CHANGED, DECISION_FLOOR * saved[0].total)):
        return ends[0], saved[0]
    return (ends[-1] if enough[-1] else None), saved[-1]


def count_saved_decisions(
    job: Job, task: Task, all_int8: Graph, with_floats: Sequence[Graph]
) -> list[SavedDecisions]:
    """Count the decisions that sets of float nodes save, on up to `MAX_SAMPLES` samples.

    Args:
        job: The job, with calibration samples.
        task: What decides.
        all_int8: The quantized model with all in integers.
        with_floats: The quantized model with each set of float nodes.

    Raises:
        ModelError: ONNX Runtime does not take a model.
        DataError: A model fails on a sample.
    """
    assert job.samples.calibration is not None
    calibration = job.samples.calibration
    samples = list(calibration.spread(min(MAX_SAMPLES, len(calibration))))
    graphs = job.prepared.graph, all_int8, *with_floats
    runs = [run_examples(job, ModelOutputs(graph, "result", job.run), samples) for graph in graphs]
    changed, made = list[list[float]](), list[float]()
    for before, *after in zip(*runs, strict=True):
        compared = [compare_examples(task, before, outputs) for outputs in after]
        changed.append([one for one, _ in compared])
        made.append(compared[0][1])
    counts = np.array(changed)
    return [
        SavedDecisions.from_rows(np.stack([counts[:, 0], counts[:, k], np.array(made)], axis=1))
        for k in range(1, counts.shape[1])
    ]
