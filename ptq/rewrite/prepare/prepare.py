"""What does a float model look like before anything is observed or quantized?

Each rewrite is one pass; the result computes what the model computed, but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ptq.model.failure import explain_failure
from ptq.model.graph import Graph
from ptq.model.open import Model, open_model, require_float
from ptq.rewrite.prepare.add_zero_bias import add_zero_bias
from ptq.rewrite.prepare.bypass_concat import bypass_concat
from ptq.rewrite.prepare.cast_to_float32 import cast_to_float32
from ptq.rewrite.prepare.check_nodes import check_node
from ptq.rewrite.prepare.decompose_attention import decompose_attention
from ptq.rewrite.prepare.fold_constants import fold_constants
from ptq.rewrite.prepare.fold_scale_forward import fold_scale_forward
from ptq.rewrite.prepare.fold_shift_forward import fold_shift_forward
from ptq.rewrite.prepare.fuse_activations import fuse_activations
from ptq.rewrite.prepare.fuse_batchnorm import fuse_batchnorm
from ptq.rewrite.prepare.fuse_layer_norm import fuse_layer_norm
from ptq.rewrite.prepare.fuse_pad_into_conv import fuse_pad_into_conv
from ptq.rewrite.prepare.fuse_softmax import fuse_softmax
from ptq.rewrite.prepare.matmul_add_to_gemm import matmul_add_to_gemm
from ptq.rewrite.prepare.normalize_gemm import normalize_gemm
from ptq.rewrite.prepare.reduce_mean_to_pool import reduce_mean_to_pool
from ptq.rewrite.prepare.remove_no_ops import remove_no_ops
from ptq.rewrite.prepare.resolve_auto_pad import resolve_auto_pad
from ptq.rewrite.prepare.separate_output_weights import separate_output_weights
from ptq.rewrite.prepare.shape_inference import shape_from_symbols, symbolic_shape
from ptq.rewrite.prepare.simplify_constant_ops import simplify_constant_ops
from ptq.rewrite.prepare.upgrade_opset import upgrade_opset


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """A model made ready, and what was done to it.

    Attributes:
        graph: The model, with constants and BatchNormalization folded and shapes inferred.
        changes: One sentence for each kind of change, for the report.
        factors: By tensor, what its channels were multiplied by afterwards, so that one scale suits them.
        shores: Tensors between integers and float of which some nodes alone see the factors, with their names.
        floats: Nodes that were added to stay float, and why.
    """

    graph: Graph
    changes: tuple[str, ...]
    channel_factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    float_nodes: Mapping[str, str] = field(default_factory=dict)


def prepare(graph: Graph) -> PreparedModel:
    """Fold, fuse and convert what quantization would stumble over; the given graph stays as it is.

    Nodes inside sub-graphs stay too. Names of inputs, outputs and surviving tensors are kept.

    Raises:
        ModelError: The opset is too old and cannot be raised, or a node's constants cannot mean anything to it.
    """
    graph = graph.copy()
    _name_dimensions(graph)
    graph, changes = upgrade_opset(graph)
    graph, opened = decompose_attention(graph)
    changes += opened
    changes += fold_constants(graph)
    graph = graph.with_shapes()  # after the walk, whose symbols it would dilute by names of its own
    for rewrite in (
        separate_output_weights,
        cast_to_float32,
        remove_no_ops,
        bypass_concat,
        resolve_auto_pad,
        fuse_pad_into_conv,
        reduce_mean_to_pool,
        normalize_gemm,
        matmul_add_to_gemm,
        fuse_batchnorm,
        add_zero_bias,
    ):
        changes += rewrite(graph)
    for name in (fuse_layer_norm, fuse_softmax, fuse_activations):
        graph, named = name(graph)
        changes += named
    changes += simplify_constant_ops(graph)
    changes += fold_scale_forward(graph)
    changes += fold_shift_forward(graph)
    graph.remove_unused()
    for node in graph.nodes:  # some have come to their constants by these passes
        check_node(node)
    return PreparedModel(graph.with_shapes(), tuple(changes))


def _name_dimensions(graph: Graph) -> None:
    """Give the inputs' nameless dimensions a name, by which they are known again further on.

    Some exporters write −1, or ``?`` for several that differ.
    """
    for value in [*graph.inputs, *graph.outputs, *(v for n in graph.nodes for v in n.outputs)]:
        symbols = symbolic_shape(value)
        if symbols is None:
            continue
        shape = list(shape_from_symbols(symbols))
        if value.is_graph_input():
            names = [f"{value.name}_dim_{axis}" for axis in range(len(shape))]
            shape = [
                ir.SymbolicDim(name) if isinstance(d, ir.SymbolicDim) and d.value is None else d
                for d, name in zip(shape, names, strict=True)
            ]
        value.shape = ir.Shape(shape)


def open_and_prepare(model: Model) -> tuple[Graph, PreparedModel]:
    """The model as given, and prepared.

    Raises:
        ModelError: It cannot be read, is no float model, or is one that ONNX Runtime refuses.
    """
    graph = require_float(open_model(model))
    with explain_failure(graph):
        return graph, prepare(graph)
