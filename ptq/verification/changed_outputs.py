"""Why ONNX Runtime's outputs change when its integers are read: what lies before each changed output."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from ptq.executor.float_islands import FloatIsland
from ptq.executor.program import Program, Step
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, get_dtype, get_name, get_operator
from ptq.verification.ort_fusions import find_merged_pairs


@dataclass(frozen=True)
class ChangeCauses:
    """Causes of changed outputs.

    Attributes:
        merged: Integers of pairs of quantizers that ONNX Runtime merges with the pair before, unless they are read.
        unexplained: Changed outputs with neither such a pair nor a float operator before them.
        unread: Nodes on which no output depends, if an output is unexplained.
    """

    merged: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


NO_CAUSES = ChangeCauses()


def find_change_causes(graph: Graph, program: Program, changed: Set[str]) -> ChangeCauses:
    """What reading the integers changes in ONNX Runtime, of all that comes before the changed outputs.

    Args:
        graph: A quantized graph.
        program: The same as integer steps and float islands.
        changed: Names of the outputs that reading changed.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    if not changed:
        return NO_CAUSES
    pairs, causes = find_merged_pairs(graph), set[str]()
    unexplained = []
    for output in sorted(changed):
        before = _list_steps_before(program, output)
        written = {name for step in before for name in step.outputs}
        merged = written.intersection(pairs)
        if not merged and not any(_has_float_results(step) for step in before):
            unexplained.append(output)
        causes |= merged
    return ChangeCauses(
        tuple(name for name in pairs if name in causes),
        tuple(unexplained),
        _list_unread(graph) if unexplained else (),
    )


def _list_steps_before(program: Program, output: str) -> list[Step | FloatIsland]:
    needed, found = {output}, list[Step | FloatIsland]()
    for step in reversed(program.steps):
        if not needed.isdisjoint(step.outputs):
            found.append(step)
            needed.update(name for name in step.inputs if name is not None)
    return found


def _has_float_results(step: Step | FloatIsland) -> bool:
    """Whether it is a float island that computes more than indices or shapes: these are the same everywhere."""
    if isinstance(step, Step):
        return False
    nodes = [
        node for node in step.graph.with_shapes().nodes if get_operator(node) not in QUANTIZERS
    ]
    dtypes = [get_dtype(value) for node in nodes for value in node.outputs if value.name]
    return any(dtype is None or dtype.kind not in "iub" for dtype in dtypes)


def _list_unread(graph: Graph) -> tuple[str, ...]:
    """Nodes on which no output depends, by name, or by their first output if they have none."""
    used = graph.copy()
    used.remove_unused()
    read = {get_name(value) for node in used.nodes for value in node.outputs if value.name}
    return tuple(
        node.name or get_name(node.outputs[0])
        for node in graph.nodes
        if read.isdisjoint(value.name for value in node.outputs)
    )
