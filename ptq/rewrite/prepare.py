"""What does a float model look like before anything is observed or quantized?

Each rewrite is one pass; the result computes what the model computed, but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ptq.graph import Graph, shape_of
from ptq.rewrite.explicit_pads import explicit_pads
from ptq.rewrite.fold_affine import fold_affine
from ptq.rewrite.fold_constants import fold_constants
from ptq.rewrite.fold_pads import fold_pads
from ptq.rewrite.matmul_to_gemm import matmul_to_gemm
from ptq.rewrite.pool_means import pool_means
from ptq.rewrite.raise_opset import raise_opset
from ptq.rewrite.remove_noops import remove_noops


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model made ready, and what was done to it.

    Attributes:
        graph: The model, with constants and BatchNormalization folded and shapes inferred.
        changes: One sentence for each kind of change, for the report.
    """

    graph: Graph
    changes: tuple[str, ...]


def prepare(graph: Graph) -> Prepared:
    """Fold, fuse and convert what quantization would stumble over; the given graph stays as it is.

    Nodes inside sub-graphs stay too. Names of inputs, outputs and surviving tensors are kept.

    Raises:
        ModelError: The opset is too old and cannot be raised.
    """
    graph = graph.copy()
    _open_dimensions(graph)
    graph, changes = raise_opset(graph)
    graph = graph.with_shapes()
    for rewrite in (
        fold_constants,
        remove_noops,
        explicit_pads,
        fold_pads,
        pool_means,
        matmul_to_gemm,
        fold_affine,
    ):
        changes += rewrite(graph)
        graph.sweep()
    return Prepared(graph.with_shapes(), tuple(changes))


def _open_dimensions(graph: Graph) -> None:
    """Leave open what some exporters write as −1, which inference would reckon with."""
    for value in [*graph.inputs, *graph.outputs, *(v for n in graph.nodes for v in n.outputs)]:
        if value.shape is not None and any(isinstance(d, int) and d < 0 for d in value.shape):
            value.shape = ir.Shape(shape_of(value) or ())
