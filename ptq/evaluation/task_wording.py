"""The task and its figures in words; every form of a report has these lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptq.evaluation.drop import TOO_FEW, TaskChoice
from ptq.evaluation.intervals import NO_INTERVAL
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.metrics import Figure

_NO_TASK = (
    "drops are the energy of the error; name the task if the outputs decide something (option task)"
)
_CHANGE = "if that is wrong, name another one, or none (option task)"


def describe_task(task: TaskChoice | None) -> tuple[str, ...]:
    """What drops are measured by, why, and how to change it, on one line; none with a metric of the user."""
    if task is None:
        return ()
    advice = "" if task.asked else _NO_TASK if task.name == "none" else _CHANGE
    return ("; ".join(filter(None, (f"task {task.name}: {task.why}", advice))),)


def describe_figures(figures: tuple[Figure, ...]) -> str:
    """The figures of one form with their intervals."""
    shown = []
    for figure in figures:
        value, lo, hi = (
            (f"{100 * number:.2f}" if figure.is_share else f"{number:.4g}").replace("-", "−")
            for number in (figure.value, *figure.interval)
        )
        interval = f"95 % CI {lo} … {hi}"
        if figure.interval == NO_INTERVAL:
            interval = f"no 95 % CI: {figure.doubt or TOO_FEW}"
        shown.append(f"{figure.name} {value}{' %' if figure.is_share else ''} ({interval})")
    return ", ".join(shown)


def describe_forms(evaluation: Evaluation, titles: Mapping[str, str]) -> Iterator[str]:
    """The figures of each form that has some, a line each; forms with equal figures share one."""
    names_by_text: dict[str, list[str]] = {}
    for name, form in evaluation.forms.items():
        if form.figures:
            names_by_text.setdefault(describe_figures(form.figures), []).append(
                titles.get(name, name)
            )
    for text, names in names_by_text.items():
        yield f"{' and '.join(names)}: {text}"
