"""Measurements of several forms of one model on the same samples, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptq.data.labelling import Labelling
from ptq.data.preprocessing.recorded_preprocess import AppliedPreprocess
from ptq.evaluation.answers import ChangedSample
from ptq.evaluation.diagnosis import Diagnosis, list_warnings
from ptq.evaluation.drop import Budget, Drop, TaskChoice
from ptq.evaluation.metrics import Accuracy, Fidelity, Figure
from ptq.executor.runtimes.runtime import Placement

REFERENCE = "float"
"""Name of the form that the others are compared with."""


@dataclass(frozen=True)
class FormMetrics:
    """Measurements of one form of the model.

    Attributes:
        accuracy: Accuracy against labels; None without labels.
        outputs: Fidelity to the float model, by output; empty for the float model.
        drop: Drop against the float model, with its interval; None for the float model.
        figures: Further figures of the task, each with its interval; empty for classes, and without a task. Of a
            model alone, the metric of the user.
        by_class: Label, number of samples and of right ones, of all samples with one label.
        confusion: Label, predicted class and number of samples, of samples with one label; only the most frequent
            errors if there are very many.
    """

    accuracy: Accuracy | None
    outputs: Mapping[str, Fidelity]
    drop: Drop | None = None
    figures: tuple[Figure, ...] = ()
    confusion: tuple[tuple[int, int, int], ...] = ()
    by_class: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """Measurements of all forms on the same samples.

    Attributes:
        samples: Number of samples.
        head: Name of the output that is compared with labels and comes first in the report.
        forms: Measurements by name of the form: ``float``, ``int8`` (in ``runtime``), ``integers`` (in the integer
            executor), or ``other`` (a second float model).
        skipped: Skipped bad samples, each with its reason.
        suspects: Known causes of bad figures that were found.
        task: What the drop is measured by, and why; None with a metric of the user.
        undefined: Number of samples on which the reference's output holds NaN, by output; those with 0 are left out.
        newly_undefined: Number of samples on which an output of another form holds NaN where the reference's does
            not, by form and output; those with 0 are left out.
        unread_labels: Number of samples whose labels fit no output.
        labels: Where the labels come from, and files of labels that were not read; None if there is neither.
        applied_preprocess: How the samples became arrays; None if they were given as an iterable.
        changed: Some samples whose answer int8, or another form that is compared, changes; the most changed first.
        changed_samples: Number of all samples whose answer it changes; None if they were not counted.
        runtime: What ran the model that is measured.
        placement: Where that runtime runs each node, quantizers left out; empty if it does not tell.
        budget: The drop compared with ``max_drop`` of ``ptq.evaluate``; None without one. A report has its own.
    """

    samples: int
    head: str
    forms: Mapping[str, FormMetrics]
    skipped: tuple[tuple[str, str], ...] = ()
    suspects: tuple[Diagnosis, ...] = ()
    labels: Labelling | None = None
    applied_preprocess: AppliedPreprocess | None = None
    task: TaskChoice | None = None
    changed: tuple[ChangedSample, ...] = ()
    changed_samples: int | None = None
    runtime: str = "ort"
    placement: tuple[Placement, ...] = ()
    undefined: Mapping[str, int] = field(default_factory=dict)
    newly_undefined: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unread_labels: int = 0
    budget: Budget | None = None

    @property
    def needs_labels(self) -> bool:
        """Whether a model alone has no figure because no sample is labelled."""
        only = next(iter(self.forms.values()))
        has_figure = only.accuracy is not None or bool(only.figures)
        return len(self.forms) == 1 and not has_figure and not self.unread_labels

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before any figure, the most serious first."""
        return list_warnings(self.applied_preprocess, self.suspects)
