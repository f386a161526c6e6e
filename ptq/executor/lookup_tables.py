"""Float islands that are lookup tables: elementwise functions of one 8-bit tensor."""

from __future__ import annotations

from ptq.core.ops import ELEMENTWISE, UNARY
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program import Program
from ptq.model.node import QUANTIZERS, get_constant, get_operator, get_shape


def find_table_islands(program: Program) -> frozenset[str]:
    """Return the names of islands that one run on all 256 values of their only input describes completely."""
    islands = (step for step in program.steps if isinstance(step, FloatIsland))
    return frozenset(island.name for island in islands if _is_table(island, program))


def _is_table(island: FloatIsland, program: Program) -> bool:
    params = program.params.get(island.inputs[0]) if len(island.inputs) == 1 else None
    return (
        params is not None
        and params.axis is None
        and params.qtype.bits == 8
        and len(island.outputs) == 1
        and island.outputs[0] in program.params
        and _is_elementwise(island)
    )


def _is_elementwise(island: FloatIsland) -> bool:
    """Return whether each output value depends on one input value, by the same function at every position."""
    shape = get_shape(island.graph.inputs[0])
    rank = 0 if shape is None else len(shape)
    for node in island.graph.nodes:
        constants = [c for c in map(get_constant, node.inputs) if c is not None]
        if any(c.size != 1 or c.ndim > max(rank, 1) for c in constants):
            return False
        if get_operator(node) not in UNARY | ELEMENTWISE | {*QUANTIZERS}:
            return False
    return True
