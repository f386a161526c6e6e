"""The task of a model: asked for by name, or recognized from inputs and float outputs of a few samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from ptq.core.errors import UsageError
from ptq.core.option_checks import require_choice
from ptq.evaluation.drop import TaskChoice
from ptq.evaluation.tasks.classify import ClassifyTask, find_classes
from ptq.evaluation.tasks.ctc import find_text
from ptq.evaluation.tasks.detect import find_boxes
from ptq.evaluation.tasks.embed import find_vectors
from ptq.evaluation.tasks.segment import SegmentTask, find_masks
from ptq.evaluation.tasks.sequence import find_tokens
from ptq.evaluation.tasks.task import Example, Found, Task, TaskName, find_states
from ptq.evaluation.tasks.task import TaskRequest as TaskRequest

NO_TASK = TaskChoice("none", "", "nothing in the outputs shows what they decide")

_Finder = Callable[[Sequence[Example], TaskRequest], Found | None]
_FINDERS: Mapping[TaskName, _Finder] = {
    "detect": find_boxes,
    "segment": find_masks,
    "ctc": find_text,
    "sequence": find_tokens,
    "embed": find_vectors,
    "classify": find_classes,
}
"""In the order in which they are tried: the special before the general."""


def _is_assumed(task: Task, examples: Sequence[Example]) -> bool:
    """Whether the shape of an output is all that shows its classes."""
    if not isinstance(task, ClassifyTask | SegmentTask):
        return False
    return not all(task.shows_classes(example.outputs[task.output]) for example in examples)


def require_task(name: object, metric: object) -> TaskName | None:
    """Require the name of a task, or None.

    Args:
        name: The name.
        metric: A metric of the user; it measures in place of a task.

    Raises:
        UsageError: There is no such task, and the text lists all; or a metric is given too.
    """
    if name is not None and metric is not None:
        raise UsageError("a metric measures in place of a task; give one of the two")
    if name is None:
        return None
    require_choice("task", name, get_args(TaskName))
    return name  # type: ignore[return-value] # it is one of them


def recognize_task(
    request: TaskRequest, examples: Sequence[Example], *, labelled: bool = False
) -> tuple[Task | None, TaskChoice]:
    """The task that is asked for, or the one that outputs, names and values show.

    Args:
        request: What is asked for.
        examples: A few samples with the outputs of the float model, at least one.
        labelled: Whether a sample has class labels: then scores are classes, whatever they look like.

    Returns:
        The task, or None where nothing shows one; and the choice in words.

    Raises:
        UsageError: No output fits the task that is asked for, or that the labels belong to; or an alphabet is given,
            and the model reads no texts.
    """
    task, choice = _recognize(request, examples, labelled=labelled)
    if request.labels.alphabet and choice.name != "ctc":
        raise UsageError(
            f"`alphabet` has no effect: the model is no recognizer of texts (task {choice.name}); leave it out, or "
            "give task ctc"
        )
    return task, choice


def _recognize(
    request: TaskRequest, examples: Sequence[Example], *, labelled: bool
) -> tuple[Task | None, TaskChoice]:
    needed = request.labels.task
    if request.name is None and needed is not None:
        found = _FINDERS[needed](examples, request)
        if found is not None:
            return found[0], TaskChoice(needed, found[0].output, found[1])
        request = replace(request, name=needed)  # labels say what the outputs decide
    if request.name == "none":
        return None, TaskChoice("none", "", "drops are the energy of the error", asked=True)
    if request.name is not None:
        found = _FINDERS[request.name](examples, request)
        if found is None:
            shapes = ", ".join(f"{k} {list(v.shape)}" for k, v in examples[0].outputs.items())
            raise UsageError(
                f"task {request.name}: no output fits ({shapes}); give another task, or leave it out to have it "
                "recognized"
            )
        return found[0], TaskChoice(found[0].name, found[0].output, found[1], asked=True)
    states = find_states(examples)
    examples = [
        replace(e, outputs={k: v for k, v in e.outputs.items() if k not in states})
        for e in examples
    ]
    finders = [find_classes] if labelled else []
    for find in (*finders, *_FINDERS.values()):
        found = find(examples, request)
        if found is not None:
            task, why = found
            assumed = not labelled and _is_assumed(task, examples)
            return task, TaskChoice(task.name, task.output, why, assumed=assumed)
    return None, NO_TASK
