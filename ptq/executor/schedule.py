"""In which order can steps run that read each other's tensors?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Schedulable(Protocol):
    """What reads and writes tensors by name."""

    @property
    def inputs(self) -> tuple[str | None, ...]:
        """Names of what it reads, None where an input is left out."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it writes."""


S = TypeVar("S", bound=Schedulable)


def sort_topologically(steps: Sequence[S]) -> list[S]:
    """Every step after those that write what it reads."""
    writer = {name: step for step in steps for name in step.outputs}
    placed: dict[int, S] = {}
    for root in steps:
        stack = [(root, False)]
        while stack:
            step, expanded = stack.pop()
            if id(step) in placed:
                continue
            if expanded:
                placed[id(step)] = step
                continue
            stack.append((step, True))
            stack.extend((writer[n], False) for n in step.inputs if n is not None and n in writer)
    return list(placed.values())
