"""Meters of one form of a model: accuracy and fidelity of each output, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ptq.data.labels import require_class
from ptq.evaluation.drop import Drop, agreement_drop, error_drop, top1_drop
from ptq.evaluation.metrics import (
    Accuracy,
    AccuracyMeter,
    FidelityMeter,
    is_scores,
)
from ptq.evaluation.tasks.classify import ClassifyTask


class FormMeter:
    """Meters of one form of the model, one for each output."""

    def __init__(self, outputs: int) -> None:
        """``outputs`` is their number."""
        self.accuracy = [AccuracyMeter() for _ in range(outputs)]
        self.fidelity = [FidelityMeter() for _ in range(outputs)]
        self.kept_outputs: list[dict[str, NDArray[Any]]] = []
        self._values: list[list[tuple[NDArray[Any], tuple[int, ...], str]]] = [
            [] for _ in range(outputs)
        ]

    def add(
        self,
        reference: list[NDArray[Any]],
        outputs: list[NDArray[Any]],
        labels: tuple[int, ...],
        name: str,
    ) -> None:
        """Add one sample: outputs of the float model and of this form, its accepted classes and its name."""
        for position, (expected, output) in enumerate(zip(reference, outputs, strict=True)):
            self.fidelity[position].add(expected, output)
            if is_scores(expected):
                self.accuracy[position].add(output, labels)
            elif expected.size == 1:
                self._values[position].append((output, labels, name))

    def count_new_nan(self, outputs: Sequence[str]) -> dict[str, int]:
        """Samples on which this form gives NaN and float does not, by output; those with 0 are left out."""
        pairs = zip(outputs, self.fidelity, strict=True)
        return {name: meter.newly_undefined for name, meter in pairs if meter.newly_undefined}

    def list_single_values(self, position: int) -> list[NDArray[Any]]:
        """The values of an output that gives one value on each sample; else none."""
        values = [value for value, _, _ in self._values[position]]
        return values if len(values) == len(self.fidelity[position].signal) else []

    def read_two_classes(self, reference: FormMeter, position: int, task: ClassifyTask) -> None:
        """Read the single values of an output as two classes: accuracy and agreement are known then.

        Args:
            reference: The meter of the float model.
            position: Position of the output.
            task: Its name and threshold.

        Raises:
            DataError: A label is neither 0 nor 1.
        """
        output, before = task.output, reference._values[position]
        for (expected, labels, name), (value, _, _) in zip(
            before, self._values[position], strict=True
        ):
            require_class(max(labels, default=-1), {output: 2}, name)
            self.accuracy[position].add(task.score(value), labels)
            changed = task.compare({output: expected}, {output: value}, {})[0]
            self.fidelity[position].agreements.append(not changed)

    def measure_drop(self, before: FormMeter, position: int, *, has_classes: bool) -> Drop:
        """Drop of one output against another form; of its error's energy if no classes decide."""
        fidelity = self.fidelity[position]
        correct = self.accuracy[position].top1_correct
        if correct:
            return top1_drop(before.accuracy[position].top1_correct, correct)
        if has_classes and len(fidelity.agreements) == len(fidelity.noise):
            return agreement_drop(fidelity.agreements)
        return error_drop(fidelity.signal, fidelity.noise)


def find_class_output(
    outputs: Sequence[str], scores: Sequence[bool], accuracies: Sequence[Accuracy | None]
) -> str:
    """Name of the output that holds class scores: the one on which the float model is most accurate.

    An output with an accuracy comes before one without, even if it is 0.
    """
    ranked = sorted(
        range(len(outputs)),
        key=lambda i: (-(a.top1 if (a := accuracies[i]) is not None else -1.0), not scores[i], i),
    )
    return outputs[ranked[0]]
