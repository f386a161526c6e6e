"""Preparation: the ordered list of rewrites that a float model passes before calibration and quantization.

Each rewrite is one pass. The result computes the same function as the model, except for rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from ptq.model.graph import Graph
from ptq.model.node import get_name, get_node_name
from ptq.model.open import Model, open_model, require_float
from ptq.model.session.failure import explain_failure
from ptq.rewrite.change import Change, Rewrite, describe_change
from ptq.rewrite.prepare.add_zero_bias import add_zero_bias
from ptq.rewrite.prepare.bypass_concat import bypass_concat
from ptq.rewrite.prepare.cancel_transposes import cancel_transposes
from ptq.rewrite.prepare.cast_to_float32 import cast_to_float32
from ptq.rewrite.prepare.check_nodes import check_nodes
from ptq.rewrite.prepare.decompose_attention import decompose_attention
from ptq.rewrite.prepare.einsum_to_matmul import rewrite_einsum_to_matmul
from ptq.rewrite.prepare.expand_axes import expand_axes
from ptq.rewrite.prepare.fold_constants import fold_constants
from ptq.rewrite.prepare.fold_scale_forward import fold_scale_forward
from ptq.rewrite.prepare.fold_shift_forward import fold_shift_forward
from ptq.rewrite.prepare.fold_where import fold_where
from ptq.rewrite.prepare.fuse_activations import fuse_activations
from ptq.rewrite.prepare.fuse_batchnorm import fuse_batchnorm
from ptq.rewrite.prepare.fuse_layer_norm import fuse_layer_norm
from ptq.rewrite.prepare.fuse_pad_into_conv import fuse_pad_into_conv
from ptq.rewrite.prepare.fuse_prelu import fuse_prelu
from ptq.rewrite.prepare.fuse_softmax import fuse_softmax
from ptq.rewrite.prepare.matmul_add_to_gemm import rewrite_matmul_add_to_gemm
from ptq.rewrite.prepare.move_views import move_views
from ptq.rewrite.prepare.name_dimensions import name_dimensions
from ptq.rewrite.prepare.node_shapes import infer_shapes
from ptq.rewrite.prepare.normalize_gemm import normalize_gemm
from ptq.rewrite.prepare.reduce_mean_to_pool import reduce_mean_to_pool
from ptq.rewrite.prepare.remove_no_ops import remove_no_ops, remove_unused
from ptq.rewrite.prepare.remove_unit_dilations import remove_unit_dilations
from ptq.rewrite.prepare.resolve_auto_pad import resolve_auto_pad
from ptq.rewrite.prepare.separate_output_weights import separate_output_weights
from ptq.rewrite.prepare.separate_pieces import separate_pieces
from ptq.rewrite.prepare.simplify_constant_ops import simplify_constant_ops
from ptq.rewrite.prepare.upgrade_opset import MIN_QDQ_OPSET, upgrade_opset

OpsetOption = Literal["auto", "keep"]
"""Whether the opset is raised where an operator needs it, or kept as it is."""

PREPARE: tuple[Rewrite, ...] = (
    name_dimensions,
    upgrade_opset,
    decompose_attention,
    fold_constants,
    fold_where,
    infer_shapes,  # after constant folding, whose symbols it would replace by names of its own
    separate_output_weights,
    cast_to_float32,
    rewrite_einsum_to_matmul,
    remove_no_ops,
    cancel_transposes,
    bypass_concat,
    separate_pieces,
    remove_unit_dilations,
    resolve_auto_pad,
    expand_axes,
    fuse_pad_into_conv,
    reduce_mean_to_pool,
    normalize_gemm,
    rewrite_matmul_add_to_gemm,
    fuse_batchnorm,
    add_zero_bias,
    fuse_layer_norm,
    fuse_softmax,
    fuse_activations,
    fuse_prelu,
    simplify_constant_ops,
    move_views,
    fold_scale_forward,
    fold_shift_forward,
    remove_unused,
    check_nodes,  # again, because these rewrites make more operands constant
    infer_shapes,
)
"""All rewrites of a float model, in their order."""
NEWER: frozenset[Rewrite] = frozenset(
    [
        fold_where,
        rewrite_einsum_to_matmul,
        cancel_transposes,
        separate_pieces,
        remove_unit_dilations,
        fuse_prelu,
        move_views,
    ]
)
"""Rewrites that version 0.2.0 did not have.

Statistics and plans of that version still apply to a model that these alone prepare otherwise. They are refused if an
older rewrite now fuses more.
"""
OLDER_FORMS: Mapping[Rewrite, Rewrite] = {
    rewrite_matmul_add_to_gemm: partial(rewrite_matmul_add_to_gemm, allow_empty=False),
}
"""The rewrites that version 0.2.0 had in another form, and that form."""
KEEPING_OPSET: Mapping[Rewrite, Rewrite] = {
    fuse_layer_norm: partial(fuse_layer_norm, keep_opset=True),
    fuse_softmax: partial(fuse_softmax, keep_opset=True),
    fuse_activations: partial(fuse_activations, keep_opset=True),
}
"""The rewrites that raise the opset, each with the form that keeps it."""
OF_FLOAT_FUNCTIONS: Mapping[Rewrite, Rewrite] = {
    upgrade_opset: partial(upgrade_opset, version=MIN_QDQ_OPSET),
    fuse_activations: partial(fuse_activations, float_functions=True),
    fold_scale_forward: partial(fold_scale_forward, float_functions=True),
}
"""Rewrites that raise the opset for functions on integers or take their factor, each in the form for layers only."""


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """A model after preparation, and what was done to it.

    Attributes:
        graph: The model, with constants and BatchNormalization folded and shapes inferred.
        changes: What the rewrites did.
        notes: What trials on samples decided, a sentence each.
        channel_factors: By tensor, the factors by which equalization multiplied its channels.
        boundaries: Tensors between integers and float, with the names of the nodes that read or write the scaled
            channels; for the other nodes the channels are unscaled.
        float_nodes: Nodes that were added to stay in float, each with the reason.
    """

    graph: Graph
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    channel_factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    float_nodes: Mapping[str, str] = field(default_factory=dict)

    def with_note(self, note: str) -> PreparedModel:
        """The same model with one more sentence on what samples decided."""
        return replace(self, notes=(*self.notes, note))

    def in_place_of(self, before: PreparedModel, note: str) -> PreparedModel:
        """This model as a rewrite of another one: with its changes, its notes and one on the rewrite."""
        return replace(self, changes=before.changes, notes=(*before.notes, note))

    def describe_changes(self) -> tuple[str, ...]:
        """The sentences of the report: one for each change, then the notes."""
        return (*map(describe_change, self.changes), *self.notes)


def prepare(
    graph: Graph,
    *,
    keep_opset: bool = False,
    per_tensor: bool = False,
    newer: bool = True,
    float_functions: bool = False,
) -> PreparedModel:
    """Apply the rewrites of `PREPARE` to a copy of the graph.

    Nodes inside sub-graphs stay unchanged. Names of inputs, outputs and remaining tensors stay.

    Args:
        graph: A float model.
        keep_opset: Do not raise the opset. Functions whose operator needs a newer one stay in several operators,
            in float.
        per_tensor: Weights get one scale, which an opset from 10 on can be kept for.
        newer: Apply the rewrites of `NEWER`. If not, those of `OLDER_FORMS` have their older form.
        float_functions: Only layers will have integers: no opset is raised for an activation function.

    Raises:
        ModelError: The opset is too old and cannot be raised, or a node has an invalid constant or attribute.
    """
    prepared, changes = graph.copy(), list[Change]()
    forms = dict(KEEPING_OPSET) if keep_opset else {}
    if float_functions:
        forms |= OF_FLOAT_FUNCTIONS
    if keep_opset:
        forms[upgrade_opset] = partial(upgrade_opset, keep_opset=True, per_tensor=per_tensor)
    if not newer:
        forms |= OLDER_FORMS
    for rewrite in PREPARE:
        if not newer and rewrite in NEWER:
            continue
        changes += forms.get(rewrite, rewrite)(prepared)
    reasons = {name: change.declined for change in changes for name in change.stay_float}
    floats = {
        get_node_name(node): reasons[get_name(node.outputs[0])]
        for node in prepared.nodes
        if get_name(node.outputs[0]) in reasons
    }
    return PreparedModel(prepared, tuple(changes), float_nodes=floats)


def open_and_prepare(
    model: Model,
    *,
    opset: OpsetOption = "auto",
    per_tensor: bool = False,
    known: Collection[str] = (),
    digest: str | None = None,
    float_functions: bool = False,
) -> tuple[Graph, PreparedModel]:
    """The graph of a model, and the prepared model, with the opset of the model if ``opset`` is ``keep``.

    Args:
        model: The model.
        opset: Whether the opset may be raised.
        per_tensor: Whether weights get one scale, so that more opsets can be kept.
        known: Tensors and nodes of statistics or a plan. If they name what only a rewrite of `NEWER` removes, these
            rewrites are left out: they did not exist then.
        digest: The graph that these belong to; None if there are none. The rewrites are left out too if the graph
            without them is this one.
        float_functions: Whether only layers will have integers. Statistics and plans of the model that was prepared
            for other targets still apply: it is prepared so then.

    Raises:
        ModelError: The model cannot be read, is not a float model, or is refused by ONNX Runtime.
    """
    graph, keep_opset = require_float(open_model(model)), opset == "keep"
    with explain_failure(graph):
        if float_functions:
            lean = prepare(
                graph, keep_opset=keep_opset, per_tensor=per_tensor, float_functions=True
            )
            if digest is None or lean.graph.digest() == digest:
                return graph, lean
        prepared = prepare(graph, keep_opset=keep_opset, per_tensor=per_tensor)
        if digest is not None and prepared.graph.digest() != digest:
            older = prepare(graph, keep_opset=keep_opset, per_tensor=per_tensor, newer=False)
            missing = set(known) - _list_names(prepared.graph)
            if older.graph.digest() == digest or missing & _list_names(older.graph):
                return graph, older
        return graph, prepared


def _list_names(graph: Graph) -> set[str]:
    nodes = {get_node_name(node) for node in graph.nodes}
    return nodes | {get_name(value) for node in graph.nodes for value in node.outputs}
