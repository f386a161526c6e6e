"""Order of steps, and how long each tensor is needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar


class Schedulable(Protocol):
    """A step that reads and writes tensors by name."""

    @property
    def inputs(self) -> tuple[str | None, ...]:
        """Names of the tensors that it reads, None if an input is absent."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors that it writes."""


S = TypeVar("S", bound=Schedulable)


def sort_topologically(steps: Sequence[S]) -> list[S]:
    """Return the steps, each after those that write its inputs."""
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


def list_tensors_to_release(
    steps: Sequence[Schedulable], outputs: Collection[str]
) -> list[list[str]]:
    """Return for each step the names of the tensors that it reads last, without the program's outputs."""
    last = {n: i for i, s in enumerate(steps) for n in s.inputs if n is not None}
    released: list[list[str]] = [[] for _ in steps]
    for name, index in last.items():
        if name not in outputs:
            released[index].append(name)
    return released
