"""Task ``classify``: one class for each sample."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.drop import AGREEMENT
from ptq.evaluation.metrics import find_best_class, is_scores, score_two_classes
from ptq.evaluation.tasks.sequence import is_end_of_answer
from ptq.evaluation.tasks.task import (
    LOGIT,
    PROBABILITY,
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    Task,
    TaskMeter,
    TaskRequest,
    choose_threshold,
    find_states,
    is_distribution,
)


@dataclass(frozen=True)
class ClassifyTask:
    """Takes the class with the highest score.

    Attributes:
        output: Name of the output, one score for each class, or one value for two classes.
        threshold: The value above which the class is 1, not 0; None for scores.
    """

    output: str
    threshold: float | None = None
    name: Literal["classify"] = "classify"
    metric: str = AGREEMENT
    ratios: Sequence[Ratio] = ()

    def decode(self, output: NDArray[Any]) -> int:
        """The class; `NO_CLASS` of NaN alone."""
        return find_best_class(self.score(output))

    def score(self, output: NDArray[Any]) -> NDArray[Any]:
        """The score of each class."""
        return output if self.threshold is None else score_two_classes(output, self.threshold)

    def shows_classes(self, output: NDArray[Any]) -> bool:
        """Whether values show that these are scores."""
        return is_distribution(output.reshape(-1))

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Whether the class differs, and 1."""
        del feed
        before, after = reference[self.output], other[self.output]
        changed = before.shape != after.shape or self.decode(before) != self.decode(after)
        return np.array([changed, 1], np.float64)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return CountsMeter(self)


def has_threshold(task: Task | None) -> TypeGuard[ClassifyTask]:
    """Whether one value decides between two classes."""
    return isinstance(task, ClassifyTask) and task.threshold is not None


def find_classes(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """An output with one score for each class; one value if labels are 0 and 1, or if classes are asked for.

    One score for each row of another output, or for each position of an input, shows no classes, unless there are
    labels or classes are asked for.
    Whether one value is two classes, and above which threshold, is decided again once all samples are known.
    """
    said = request.asked or any(example.labels for example in examples)
    for name in examples[0].outputs:
        if not said and has_scores_of_places(name, examples[0].outputs):
            continue
        if all(is_scores(example.outputs[name]) for example in examples):
            if not said and has_scores_of_positions(name, examples, request):
                continue
            sizes = {example.outputs[name].size for example in examples}
            return ClassifyTask(name), describe_scores(name, min(sizes), max(sizes))
    labels = {label for example in examples for label in example.labels}
    names = list(examples[0].outputs)
    values = {name: [example.outputs[name] for example in examples] for name in names}
    return find_two_classes(values, labels, request)


def has_scores_of_places(name: str, outputs: Arrays) -> bool:
    """Whether the axis of an output's scores counts rows of another output, such as anchors with a box each."""
    array = outputs[name]
    return (
        array.ndim > 1
        and array.size > array.shape[-1] == 1
        and any(
            other.shape[:-1] == array.shape[:-1] and other.shape[-1] > 1
            for other in outputs.values()
            if other.ndim > 1
        )
    )


def has_scores_of_positions(name: str, examples: Sequence[Example], request: TaskRequest) -> bool:
    """Whether an output's scores count positions, such as moments of a sound, not classes.

    Their number then differs between samples, or it is that of an input's axis of the same name. Of starts and ends
    of answers the best position decides, as a class does; so does the best choice, or the best text of a batch.
    """
    if is_end_of_answer(name):
        return False
    sizes = [example.outputs[name].size for example in examples]

    def list_axes(of: str, array: NDArray[Any], size: int) -> set[str]:
        pairs = zip(request.axes.get(of, ()), array.shape, strict=False)
        return {axis for axis, length in pairs if axis is not None and length == size}

    own = [list_axes(name, e.outputs[name], size) for e, size in zip(examples, sizes, strict=True)]
    inputs = [request.axes.get(of, ()) for of in examples[0].feed]
    if any(_is_axis_of_choices(axis, inputs) for axis in own[0]):
        return False
    return len({*sizes}) > 1 or all(
        any(axes & list_axes(of, array, size) for of, array in example.feed.items())
        for example, axes, size in zip(examples, own, sizes, strict=True)
    )


def _is_axis_of_choices(axis: str, inputs: Iterable[Sequence[str | None]]) -> bool:
    """Whether an axis counts choices or texts, not positions: by its name, or as each has an open axis of its own.

    Args:
        axis: The name of the axis.
        inputs: The names of all axes of each input.
    """
    behind = [axes[axes.index(axis) + 1 :] for axes in inputs if axis in axes]
    has_own_axes = behind != [] and all({*names} - {axis, None} for names in behind)
    return has_own_axes or any(word in axis.lower() for word in ("batch", "choice"))


def find_two_classes(
    values: Mapping[str, Sequence[NDArray[Any]]], labels: Collection[int], request: TaskRequest
) -> tuple[ClassifyTask, str] | None:
    """An output whose one value is two classes; None if labels are others than 0 and 1, unless classes are asked for.

    Args:
        values: The outputs of the float model on each sample, by name.
        labels: Classes of the samples.
        request: What is asked for.
    """
    if not request.asked and not (labels and {*labels} <= {0, 1}):
        return None
    for name, arrays in values.items():
        if arrays and all(array.size == 1 and array.dtype.kind == "f" for array in arrays):
            threshold = choose_threshold(arrays)
            return ClassifyTask(name, threshold), (
                f"output {name} gives one {'probability' if threshold else 'logit'}: "
                f"class 1 above {threshold:g}, else class 0"
            )
    return None


def list_candidates(task: Task, example: Example) -> list[Task]:
    """The task; all that it may be if the outputs and labels of all samples choose.

    Of several outputs with scores each may decide, and of one value each threshold.
    """
    if not isinstance(task, ClassifyTask):
        return [task]
    if has_threshold(task):
        return [replace(task, threshold=threshold) for threshold in (LOGIT, PROBABILITY)]
    states = find_states([example])
    return [
        ClassifyTask(name)
        for name, array in example.outputs.items()
        if is_scores(array) and (name not in states or name == task.output)
    ]


def describe_scores(output: str, fewest: int, most: int) -> str:
    """What a task with scores is recognized by; as many as each sample has positions are scores of these."""
    number = f"{most} classes" if fewest == most else f"{fewest} to {most} positions"
    return f"output {output} gives one score for each of {number}"
