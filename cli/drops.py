"""How does what quantization cost read, with how sure it is?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import RenderableType

from .edge import one_line
from .screen import indented

if TYPE_CHECKING:
    from ptq.drop import Drop
    from ptq.evaluate import Evaluation

CHANCE = 0.05


def drops(result: Evaluation, titles: Mapping[str, str]) -> Iterator[RenderableType]:
    """What each form loses, those that lose the same in one sentence."""
    said: dict[str, list[str]] = {}
    for name, form in result.forms.items():
        if form.drop is not None:
            said.setdefault(drop(form.drop), []).append(titles[name])
    for text, names in said.items():
        yield indented(one_line(f"{' and '.join(names)}: {text}"))


def drop(lost: Drop) -> str:
    """One drop in words."""
    if lost.metric == "energy of the error":
        ends = f"95 % interval {lost.lo:.3g} to {lost.hi:.3g}"
        return f"the error has {lost.points:.3g} % of the output's energy, {ends}"
    change = "loses" if lost.points >= 0 else "gains"
    ends = f"95 % interval {lost.lo:.2f} to {lost.hi:.2f}"
    text = f"{change} {abs(lost.points):.2f} points of {lost.metric}, {ends}"
    if lost.p is None or lost.lost is None or lost.gained is None:
        return text
    verdict = "a difference" if lost.p < CHANCE else "chance may do as much"
    return f"{text}; {lost.lost} lost, {lost.gained} gained, p = {lost.p:.2g}: {verdict}"
