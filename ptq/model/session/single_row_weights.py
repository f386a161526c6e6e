"""Whether the matrix weights of a model multiply single rows: a packed copy of them costs more than it gives."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ptq.model.graph import Graph
from ptq.model.node import get_operator, get_shape

_LEAST_WEIGHTS = 2**24
"""Weights from which the copies take a noticeable time: 64 MB."""
_SHARE = 0.9
"""Share of the matrix weights that must multiply single rows."""


def has_single_row_weights(graph: Graph) -> bool:
    """Whether the matrices of Gemm and MatMul nodes are large, and nearly all of them multiply one row.

    Each weight of such a matrix is read once in a run. What has no known shape counts as more rows.
    """
    found = list(_count_weights(graph))
    total = sum(count for count, _ in found)
    of_one_row = sum(count for count, single in found if single)
    return of_one_row >= _LEAST_WEIGHTS and of_one_row >= _SHARE * total


def _count_weights(graph: Graph) -> Iterator[tuple[int, bool]]:
    """The number of weights of each matrix, and whether it multiplies one row."""
    for node in graph.nodes:
        if get_operator(node) in ("Gemm", "MatMul") and None not in node.inputs[:2]:
            rows, matrix = (value and get_shape(value) for value in node.inputs[:2])
            if matrix and None not in matrix:
                count = math.prod(side for side in matrix if side is not None)
                yield count, bool(rows) and all(side == 1 for side in (rows or ())[:-1])
