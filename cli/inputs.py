"""How do the strings of the command line become the values that ptq's verbs take?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ptq.errors import PlanError, UsageError

if TYPE_CHECKING:
    from ptq.data import Preprocess
    from ptq.data.preprocess import Channels, Layout
    from ptq.plan import Plan
    from ptq.usermetric import Metric


def preprocess(
    *,
    size: str | None,
    resize: int | None,
    crop: str | None,
    scale: float | None,
    mean: str | None,
    std: str | None,
    layout: str | None,
    channels: str | None,
) -> Preprocess | None:
    """The preprocessing options as one value; None where none is given.

    Raises:
        UsageError: One of them makes no sense.
    """
    from ptq.data import Preprocess

    given = Preprocess(
        size=_pair("--size", size),
        resize=resize,
        crop=_pair("--crop", crop),
        scale=scale,
        mean=_numbers("--mean", mean),
        std=_numbers("--std", std),
        layout=cast("Layout | None", layout),
        channels=cast("Channels | None", channels),
    )
    return None if given == Preprocess() else given


def shard(text: str | None) -> tuple[int, int] | None:
    """``K/N`` as two numbers.

    Raises:
        UsageError: It is not of that form.
    """
    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal()):
        raise UsageError(f"--shard {text} is not K/N; write 0/3, 1/3 and 2/3 for three shards")
    return int(index), int(count)


def read_plan(path: Path | None) -> Plan | None:
    """The plan in a file.

    Raises:
        PlanError: The file cannot be read or holds no plan.
    """
    from ptq.plan import Plan

    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(
            f"{path}: cannot be read ({error.strerror}); write one with --save-plan"
        ) from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: is not text; write a plan with --save-plan") from None
    try:
        return Plan.from_json(text)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _pair(option: str, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"{option} {text} is not H,W in pixels; write {option} 224,224")
    return int(parts[0]), int(parts[1])


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{option} {text} is not a list of numbers; write {option} 0.5 or {option} 0.4,0.5,0.6"
        ) from None


def read_metric(reference: str | None) -> Metric | None:
    """The metric that ``module:callable`` refers to.

    Raises:
        UsageError: There is no such callable.
    """
    if reference is None:
        return None
    from ptq.data.stream import import_callable

    found: Callable[..., Any] = import_callable(reference)
    return found
