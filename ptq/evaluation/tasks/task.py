"""The interface of a task: outputs of the float model and of another form on a sample → decisions changed.

task = recognize_task(request, examples)
changed, decisions = task.compare(float_outputs, int8_outputs, feed)[:2]
print(task.metric, 100 * changed / decisions)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ptq.data.labels.labelled_boxes import NO_BOXES, BoxLabels
from ptq.evaluation import intervals
from ptq.evaluation.drop import Drop
from ptq.evaluation.intervals import Interval
from ptq.evaluation.metrics import Figure
from ptq.model.graph import Graph
from ptq.model.node import get_axis_names, get_name

TaskName = Literal["classify", "detect", "ctc", "embed", "segment", "sequence", "none"]
"""``none`` is no task: outputs are numbers that decide nothing."""

Arrays = Mapping[str, NDArray[Any]]
"""Arrays of one sample by name: its inputs, or the outputs of a model."""
EXAMPLES = 8
"""Samples on which a task is recognized."""
LOGIT, PROBABILITY = 0.0, 0.5
"""Thresholds of two classes in one value."""
Counts = NDArray[np.float64]
"""What one sample adds: decisions changed, decisions of the float model, then what the task's figures need."""


@dataclass(frozen=True)
class Ratio:
    """A figure that is a function of the sums of the counts over samples; NaN where they do not define it.

    Attributes:
        name: What it measures.
        compute: The figure from the sums.
    """

    name: str
    compute: Callable[[Counts], float]


@dataclass(frozen=True, eq=False)
class Example:
    """One sample on which a task is recognized.

    Attributes:
        feed: The inputs.
        outputs: The outputs of the float model.
        name: Name of the sample; labels of boxes belong to it.
        labels: Acceptable classes; empty if the sample is not labelled.
    """

    feed: Arrays
    outputs: Arrays
    name: str = ""
    labels: tuple[int, ...] = ()


@dataclass(frozen=True)
class TaskLabels:
    """Labels that are no class numbers, by the name of the sample.

    Attributes:
        boxes: Labelled boxes; without images if there are none.
        texts: Labelled texts; empty without.
        alphabet: Texts of a recognizer's classes, as a file lists them; empty for those of the metadata.
    """

    boxes: BoxLabels = NO_BOXES
    texts: Mapping[str, str] = field(default_factory=dict)
    alphabet: tuple[str, ...] = ()

    @property
    def task(self) -> TaskName | None:
        """The task that has such labels; None without labels."""
        return "ctc" if self.texts else "detect" if self.boxes.images else None


NO_LABELS = TaskLabels()


@dataclass(frozen=True)
class TaskRequest:
    """What is known of a task before the model runs.

    Attributes:
        name: The task that is asked for; None to recognize it.
        metadata: The metadata of the model; exporters write the task into it.
        labels: Labelled boxes or texts.
        axes: Names of the open axes of inputs and outputs, by name; None for each other axis.
    """

    name: TaskName | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    labels: TaskLabels = NO_LABELS
    axes: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    @classmethod
    def from_graph(
        cls, name: TaskName | None, graph: Graph, labels: TaskLabels = NO_LABELS
    ) -> TaskRequest:
        """The request for a model, with its metadata and the names of its axes."""
        axes = {get_name(v): get_axis_names(v) for v in (*graph.inputs, *graph.outputs)}
        return cls(name, dict(graph.metadata), labels, axes)

    @property
    def asked(self) -> bool:
        """Whether a task is asked for; then outputs of the right shape suffice."""
        return self.name is not None


class Task(Protocol):
    """A task of one model: which outputs decide, and how two forms are compared on a sample."""

    @property
    def name(self) -> TaskName:
        """Name of the task."""
        ...

    @property
    def metric(self) -> str:
        """Name of the metric of the drop: the share of the float model's decisions that another form keeps."""
        ...

    @property
    def output(self) -> str:
        """The output that decides; the first one of several."""
        ...

    @property
    def ratios(self) -> Sequence[Ratio]:
        """The further figures."""
        ...

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Compare two forms on one sample.

        Args:
            reference: Outputs of the float model, with the axes of the model.
            other: Outputs of another form.
            feed: The inputs.

        Returns:
            Decisions changed, decisions of the float model (0 if it decides nothing on this sample), and the counts
            of ``ratios``. The length is the same for all samples.
        """
        ...

    def start(self) -> TaskMeter:
        """A meter without samples."""
        ...


Found = tuple[Task, str]
"""A task, and what it was recognized by."""


class TaskMeter(Protocol):
    """Adds up samples of one form."""

    def add(self, example: Example, other: Arrays) -> None:
        """Add one sample with the outputs of another form."""
        ...

    def measure_drop(self) -> Drop:
        """Decisions of the float model that are changed, with an interval."""
        ...

    def measure_figures(self) -> tuple[Figure, ...]:
        """All figures, each with an interval."""
        ...


@dataclass
class CountsMeter:
    """Sums of the counts, from which the drop and all figures follow."""

    task: Task
    rows: list[Counts] = field(default_factory=list)

    def add(self, example: Example, other: Arrays) -> None:
        """Add one sample."""
        self.rows.append(self.task.compare(example.outputs, other, example.feed))

    def measure_drop(self) -> Drop:
        """The share of changed decisions, see `measure_decisions`."""
        return measure_decisions(self.task.metric, np.array(self.rows)[:, :2])

    def measure_figures(self) -> tuple[Figure, ...]:
        """The figures that the sums define, each with a bootstrap interval."""
        rows = np.array(self.rows)
        found = ((ratio.name, *measure_ratio(rows, ratio.compute)) for ratio in self.task.ratios)
        return tuple(Figure(*figure) for figure in found if not math.isnan(figure[1]))


def measure_decisions(metric: str, rows: Counts) -> Drop:
    """The share of changed decisions, in points, with an interval.

    The interval is exact (Clopper and Pearson) if every sample is one decision. Else it is a bootstrap over samples,
    because decisions of one sample are not independent. Without any decision, such as a box with a sufficient score,
    any share is possible.

    Args:
        metric: Name of the metric.
        rows: Decisions changed and decisions, of each sample.
    """
    changed, decisions = map(float, rows.sum(axis=0))
    share, single = compute_share(changed, decisions), bool((rows[:, 1] == 1).all())
    if not decisions:
        lo, hi = 0.0, 1.0
    elif single:
        lo, hi = intervals.compute_clopper_pearson_interval(int(changed), int(decisions))
    else:
        lo, hi = measure_ratio(rows, lambda sums: compute_share(sums[0], sums[1]))[1]
    lost, gained = (int(changed), 0) if single else (None, None)
    return Drop(metric, 100 * share, 100 * lo, 100 * hi, len(rows), lost=lost, gained=gained)


def measure_ratio(
    rows: Counts, compute: Callable[[Counts], float], *, gains: bool = False
) -> tuple[float, Interval]:
    """A function of the sums over samples, with the bootstrap interval of the draws that define it.

    Where all samples are equal, as without any change, each that defines the function is one decision: decisions of
    one sample are not independent.

    Args:
        rows: One row of counts for each sample.
        compute: The function.
        gains: Whether it is a difference, which may be negative.
    """
    value = compute(rows.sum(axis=0))
    draws = [compute(sums) for sums in intervals.bootstrap_sums(rows)]
    interval = intervals.compute_defined_interval(np.array(draws))
    counted = sum(bool(row.any()) and not math.isnan(compute(row)) for row in rows)
    return value, intervals.widen_equal_draws(value, interval, max(1, counted), gains=gains)


def is_distribution(scores: NDArray[Any], axis: int = -1) -> bool:
    """Whether an axis holds probabilities, or their logarithms."""
    values = np.asarray(scores, np.float64)
    if values.ndim == 0 or values.size == 0 or not np.isfinite(values).all():
        return False
    if values.min() >= -1e-6:
        return bool(np.allclose(values.sum(axis=axis), 1, atol=5e-3))
    return values.max() <= 1e-6 and bool(np.allclose(np.exp(values).sum(axis=axis), 1, atol=5e-3))


def compute_share(changed: float, total: float) -> float:
    """A share; 0 if nothing was counted."""
    return float(changed / total) if total else 0.0


def compute_mean(total: float, count: float) -> float:
    """A mean; NaN if nothing was counted."""
    return float(total / count) if count else math.nan


def choose_threshold(arrays: Sequence[NDArray[Any]]) -> float:
    """The value above which a single score means class 1: of probabilities if all lie in 0 … 1, else of logits."""
    outside = any(((array < 0) | (array > 1)).any() for array in arrays)  # NaN is not
    return LOGIT if outside else PROBABILITY


def find_states(examples: Sequence[Example]) -> set[str]:
    """Outputs that the next run reads, as states of recurrent networks: of several, those shaped as float inputs.

    Outputs that all have such a shape are none: something must decide.
    """
    found = {
        name
        for name in examples[0].outputs
        if len(examples[0].feed) > 1
        and all(
            any(a.dtype.kind == "f" and a.shape == e.outputs[name].shape for a in e.feed.values())
            for e in examples
        )
    }
    return found if len(found) < len(examples[0].outputs) else set()
