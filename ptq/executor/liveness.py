"""What does each step of a program read, and which tensors does nobody need after it?"""

from __future__ import annotations

from collections.abc import Mapping

from ptq.executor.float_islands import FloatIsland
from ptq.executor.layout import Tensor
from ptq.executor.program import Program, Step


def split_inputs(
    step: Step | FloatIsland, constants: Mapping[str, Tensor]
) -> tuple[list[Tensor | None], list[tuple[int, str]]]:
    """A step's constant inputs in their places, and the positions and names of those that arrive."""
    names = [(i, n) for i, n in enumerate(step.inputs) if n is not None and n not in constants]
    return [None if n is None else constants.get(n) for n in step.inputs], names


def tensors_to_release(program: Program) -> list[list[str]]:
    """For each step, the tensors that nobody needs after it."""
    last = {n: i for i, s in enumerate(program.steps) for n in s.inputs if n is not None}
    ends: list[list[str]] = [[] for _ in program.steps]
    for name, index in last.items():
        if name not in program.outputs:
            ends[index].append(name)
    return ends
