"""Parameters of embedding tables: a Gather reads int8 rows, and what it read becomes float.

One scale for each column keeps far more than one for all: the columns of trained tables differ in size. MiniLM's
output has 43 dB with its tables in int8 by column, 35 by row, and 26 with one scale for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.plan import Why
from ptq.core.target import Target
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    get_attributes,
    get_constant,
    get_constant_shape,
    get_dtype,
    get_name,
    get_node_name,
    get_operator,
)
from ptq.observers.qparams import compute_symmetric_qparams

INT8_TABLE_REASON = "reads rows of an int8 table, which become float"
"""Why such a node counts as a float node."""
_LEAST_BYTES = 2**16
"""Bytes of a float table below which int8 saves nothing that matters."""
_LEAST_SQNR = 1e3
"""The SQNR, as a ratio, that most rows must keep: 30 dB, above that of most networks with 8-bit activations."""
_TRIED_ROWS = 512
"""Rows that are rounded to find that out, spread over the table."""


def find_tables(
    graph: Graph,
    quantized: Collection[str],
    kept: Set[str],
    target: Target,
    *,
    per_tensor: bool,
) -> Iterator[tuple[str, QuantParams, Why]]:
    """The float Gathers whose tables are stored in int8, each with the parameters of its table.

    Args:
        graph: A prepared graph.
        quantized: Names of the nodes that compute on integers.
        kept: Names of the nodes, or operators, that are kept float on purpose.
        target: The target.
        per_tensor: A table has one scale, instead of one for each column.
    """
    solved: dict[str, tuple[QuantParams, Why] | None] = {}
    nodes = dict.fromkeys(graph.nodes if target.quantizes_tables else ())
    for node in nodes:
        name, table = get_node_name(node), node.inputs[0] if node.inputs else None
        if table is None or name in quantized or not _is_row_gather(node):
            continue
        readers = [use.node for use in table.uses() if use.node.name not in quantized]
        # a reader in a sub-graph is no node of the plan, and keeps the table float
        if not all(
            one in nodes and _is_row_gather(one) and kept.isdisjoint([one.name, "Gather"])
            for one in readers
        ):
            continue
        if get_name(table) not in solved:
            array = get_constant(table)
            assert array is not None
            solved[get_name(table)] = _solve_table(array, target, per_tensor)
        found = solved[get_name(table)]
        if found is not None:
            yield name, *found


def _is_row_gather(node: Node) -> bool:
    """Whether the node reads rows of a large matrix of float32."""
    table = node.inputs[0] if get_operator(node) == "Gather" else None
    shape = get_constant_shape(table)
    if table is None or shape is None or len(shape) != 2 or get_dtype(table) != np.float32:
        return False
    return (
        get_attributes(node).get("axis", 0) in (0, -2) and shape[0] * shape[1] * 4 >= _LEAST_BYTES
    )


def _solve_table(
    table: NDArray[Any], target: Target, per_tensor: bool
) -> tuple[QuantParams, Why] | None:
    """The parameters of a table; None if most of its rows would lose too much."""
    largest = np.maximum(table.max(axis=0), -table.min(axis=0))
    if not np.isfinite(largest).all():
        return None
    params = compute_symmetric_qparams(
        largest.max() if per_tensor else largest, target.weight, None if per_tensor else 1
    )
    rows = table[:: -(-len(table) // _TRIED_ROWS)].astype(np.float64)
    error = np.square(params.dequantize(params.quantize(rows)) - rows).sum(axis=1)
    if (np.square(rows).sum(axis=1) < _LEAST_SQNR * error).mean() > 0.5:
        return None
    return params, Why("observed", f"largest absolute value{'' if per_tensor else ', per column'}")
