"""Normalization of a graph that any tool quantized: the ordered list of rewrites before its operators are read.

ONNX Runtime's optimizer finds more integer operators than those between a DequantizeLinear and a QuantizeLinear:
quantizers of Microsoft's domain, weights quantized in the graph, clamps that the next quantizer repeats, float
biases, data movement without quantizers. Each rewrite follows ONNX Runtime 1.31, so that the remaining tensors keep
their integers and names.
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.rewrite.change import Rewrite
from ptq.rewrite.imported.deduplicate_quantizers import deduplicate_quantizers
from ptq.rewrite.imported.fold_quantized_constants import fold_quantized_constants
from ptq.rewrite.imported.infer_types import declare_integer_types, infer_missing_types
from ptq.rewrite.imported.quantize_biases import fuse_matmul_add, quantize_biases
from ptq.rewrite.imported.quantize_data_movement import quantize_data_movement
from ptq.rewrite.imported.remove_redundant_clamps import remove_redundant_clamps
from ptq.rewrite.imported.split_reinterpretation import split_reinterpreted_tensors
from ptq.rewrite.imported.standard_quantizers import (
    add_default_zero_points,
    upgrade_microsoft_opset,
    use_onnx_domain,
)
from ptq.rewrite.prepare.remove_unit_dilations import remove_unit_dilations

NORMALIZE_QDQ: tuple[Rewrite, ...] = (
    upgrade_microsoft_opset,
    infer_missing_types,
    use_onnx_domain,
    add_default_zero_points,
    split_reinterpreted_tensors,
    deduplicate_quantizers,
    fold_quantized_constants,
    remove_redundant_clamps,
    remove_unit_dilations,
    quantize_data_movement,
    fuse_matmul_add,
    quantize_data_movement,  # again, for the Reshapes of the new Gemm nodes
    quantize_biases,
    declare_integer_types,
)
"""All rewrites of a quantized graph, in their order; each removes the nodes that it leaves unused.

A node that nobody uses would still count as a reader.
"""


def normalize_qdq(graph: Graph, *, biases: bool = True) -> Graph:
    """A copy of the graph after the rewrites of `NORMALIZE_QDQ`: the same integer function, as ONNX Runtime reads it.

    Args:
        graph: A graph in QDQ or QOperator form, or a mixture.
        biases: Whether float biases between integers become int32.
    """
    normalized = graph.copy()
    for rewrite in NORMALIZE_QDQ:
        if biases or rewrite is not quantize_biases:
            rewrite(normalized)
    return normalized
