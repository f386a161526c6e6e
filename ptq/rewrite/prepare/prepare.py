"""What does a float model look like before anything is observed or quantized?

Each rewrite is one pass; the result computes what the model computed, but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ptq.model.failure import blaming
from ptq.model.graph import Graph
from ptq.model.open import Model, open_model, require_float
from ptq.rewrite.prepare.add_zero_bias import give_biases
from ptq.rewrite.prepare.bypass_concat import past_concats
from ptq.rewrite.prepare.cast_to_float32 import in_float32
from ptq.rewrite.prepare.check_nodes import require_wellformed
from ptq.rewrite.prepare.decompose_attention import open_attention
from ptq.rewrite.prepare.fold_constants import fold_constants
from ptq.rewrite.prepare.fold_scale_forward import fold_forward
from ptq.rewrite.prepare.fold_shift_forward import fold_shifts
from ptq.rewrite.prepare.fuse_activations import name_functions
from ptq.rewrite.prepare.fuse_batchnorm import fold_affine
from ptq.rewrite.prepare.fuse_layer_norm import name_normalizations
from ptq.rewrite.prepare.fuse_pad_into_conv import fold_pads
from ptq.rewrite.prepare.fuse_softmax import name_softmaxes
from ptq.rewrite.prepare.matmul_add_to_gemm import matmul_to_gemm
from ptq.rewrite.prepare.normalize_gemm import plain_gemm
from ptq.rewrite.prepare.reduce_mean_to_pool import pool_means
from ptq.rewrite.prepare.remove_no_ops import remove_noops
from ptq.rewrite.prepare.resolve_auto_pad import explicit_pads
from ptq.rewrite.prepare.separate_output_weights import free_outputs
from ptq.rewrite.prepare.shape_inference import dimensions, shape_of_symbols
from ptq.rewrite.prepare.simplify_constant_ops import multiply
from ptq.rewrite.prepare.upgrade_opset import raise_opset


@dataclass(frozen=True, eq=False)
class Prepared:
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
    factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    shores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    floats: Mapping[str, str] = field(default_factory=dict)


def prepare(graph: Graph) -> Prepared:
    """Fold, fuse and convert what quantization would stumble over; the given graph stays as it is.

    Nodes inside sub-graphs stay too. Names of inputs, outputs and surviving tensors are kept.

    Raises:
        ModelError: The opset is too old and cannot be raised, or a node's constants cannot mean anything to it.
    """
    graph = graph.copy()
    _name_dimensions(graph)
    graph, changes = raise_opset(graph)
    graph, opened = open_attention(graph)
    changes += opened
    changes += fold_constants(graph)
    graph = graph.with_shapes()  # after the walk, whose symbols it would dilute by names of its own
    for rewrite in (
        free_outputs,
        in_float32,
        remove_noops,
        past_concats,
        explicit_pads,
        fold_pads,
        pool_means,
        plain_gemm,
        matmul_to_gemm,
        fold_affine,
        give_biases,
    ):
        changes += rewrite(graph)
    for name in (name_normalizations, name_softmaxes, name_functions):
        graph, named = name(graph)
        changes += named
    changes += multiply(graph)
    changes += fold_forward(graph)
    changes += fold_shifts(graph)
    graph.sweep()
    for node in graph.nodes:  # some have come to their constants by these passes
        require_wellformed(node)
    return Prepared(graph.with_shapes(), tuple(changes))


def _name_dimensions(graph: Graph) -> None:
    """Give the inputs' nameless dimensions a name, by which they are known again further on.

    Some exporters write −1, or ``?`` for several that differ.
    """
    for value in [*graph.inputs, *graph.outputs, *(v for n in graph.nodes for v in n.outputs)]:
        symbols = dimensions(value)
        if symbols is None:
            continue
        shape = list(shape_of_symbols(symbols))
        if value.is_graph_input():
            names = [f"{value.name}_dim_{axis}" for axis in range(len(shape))]
            shape = [
                ir.SymbolicDim(name) if isinstance(d, ir.SymbolicDim) and d.value is None else d
                for d, name in zip(shape, names, strict=True)
            ]
        value.shape = ir.Shape(shape)


def made_ready(model: Model) -> tuple[Graph, Prepared]:
    """The model as given, and prepared.

    Raises:
        ModelError: It cannot be read, is no float model, or is one that ONNX Runtime refuses.
    """
    graph = require_float(open_model(model))
    with blaming(graph):
        return graph, prepare(graph)
