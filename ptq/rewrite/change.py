"""The contract of a rewrite: it changes a graph in place and returns what it did as data.

`describe_change` is the one place that turns these data into the sentences of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptq.core.wording import plural
from ptq.model.graph import Graph


@dataclass(frozen=True)
class Change:
    """What one rewrite did to a graph, or why it did nothing.

    Attributes:
        kind: The rewrite, by the name of its function; a rewrite that does several things has one kind for each.
        count: The number of nodes, tensors or constants that it changed.
        old: What was replaced, if the kind does not say it: an operator, an element type or an opset.
        new: What replaces it, if the kind does not say it.
        declined: Why the rewrite left them unchanged; empty if it changed them.
        stay_float: Outputs of nodes that must stay float because the rewrite left them unchanged.
    """

    kind: str
    count: int = 1
    old: str = ""
    new: str = ""
    declined: str = ""
    stay_float: tuple[str, ...] = ()


Rewrite = Callable[[Graph], list[Change]]
"""Changes a graph in place and returns one `Change` for each kind of change; nothing if it changed nothing."""


_TURNED = ("{old} node", "turned {what} into {new}")
_FUSED = ("{new} node", "fused elementary operators into {what}")
_SENTENCES: Mapping[str, tuple[str, str]] = {
    # prepare
    "upgrade_opset": ("opset", "raised the opset from {old} to {new}"),
    "upgrade_opset_for_fusion": (
        "opset",
        "raised the opset from {old} to {new} for fused operators",
    ),
    "decompose_attention": ("Attention node", "decomposed {what} into MatMul and Softmax"),
    "fold_constants": ("constant node", "evaluated {what}"),
    "fold_static_shapes": ("node", "evaluated {what} of static shape arithmetic"),
    "fold_reshape_target": ("Reshape node", "made the target of {what} constant"),
    "fold_where": ("Where node", "turned {what} between shapes into Concat"),
    "separate_output_weights": ("weight", "separated {what} from the graph outputs"),
    "cast_to_float32": ("{old} product", "computed {what} in float32"),
    "einsum_to_matmul": ("Einsum node", "turned {what} into MatMul"),
    "remove_no_ops": ("{old} node", "removed {what} without effect"),
    "cancel_transposes": ("pair", "removed {what} of inverse Transposes"),
    "bypass_concat": ("segment", "read {what} of a Concat directly from its inputs"),
    "separate_pieces": (
        "piece",
        "kept {what} of a Concat apart up to the Split or Slice behind it",
    ),
    "remove_unit_dilations": ("AveragePool node", "removed dilations of 1 from {what}"),
    "resolve_auto_pad": ("node", "replaced auto_pad of {what} by explicit pads"),
    "expand_axes": ("node", "gave {what} a value for each axis"),
    "fuse_pad_into_conv": ("Pad node", "fused {what} into the padding of the next nodes"),
    "reduce_mean_to_pool": ("ReduceMean node", "turned {what} into GlobalAveragePool"),
    "normalize_gemm": ("Gemm node", "reduced {what} to a product and a bias"),
    "matmul_add_to_gemm": ("MatMul node", "turned {what} into Gemm"),
    "fuse_batchnorm": ("{old} node", "folded {what} into {new}"),
    "replace_batchnorm": _TURNED,
    "add_zero_bias": ("layer", "added a zero bias to {what}"),
    "fuse_layer_norm": _FUSED,
    "fuse_softmax": _FUSED,
    "fuse_activations": _FUSED,
    "fuse_prelu": _FUSED,
    "simplify_constant_ops": _TURNED,
    "move_views": ("activation", "moved {what} directly behind the layer"),
    "cancel_views": ("pair", "removed {what} of reshapes that restore a shape"),
    "fold_scale_forward": ("constant factor", "folded {what} into the weights behind"),
    "fold_shift_forward": ("constant summand", "folded {what} into the biases behind"),
    # normalization of imported models
    "use_onnx_domain": ("quantizer", "put {what} into the ONNX domain"),
    "add_default_zero_points": ("quantizer", "added zero point 0 to {what}"),
    "split_reinterpreted_tensors": ("tensor", "split {what} read with a second scale"),
    "deduplicate_quantizers": ("quantizer", "merged {what} with an equal one"),
    "fold_quantized_constants": ("quantized constant", "folded {what}"),
    "remove_redundant_clamps": ("clamp", "removed {what} that the next quantizer repeats"),
    "quantize_data_movement": ("Q/DQ pair", "added {what} around data movement"),
    "fuse_matmul_add": ("MatMul node", "fused {what} with the next Add into Gemm"),
    "quantize_biases": ("float constant", "quantized {what} added as bias"),
}
"""By kind: the noun that is counted, and the sentence."""


def describe_change(change: Change) -> str:
    """The sentence of the report for a change."""
    noun, sentence = _SENTENCES[change.kind]
    names = {"old": change.old, "new": change.new}
    what = plural(change.count, noun.format(**names))
    if change.declined:
        return f"{change.kind.replace('_', ' ')}: not applied to {what}: {change.declined}"
    return sentence.format(what=what, **names)
