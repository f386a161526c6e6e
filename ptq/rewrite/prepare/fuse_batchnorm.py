"""BatchNormalization ∘ Conv, ConvTranspose, Gemm → the layer alone; the same for arithmetic with constants.

    a·(W∗x + c) + b = (a·W)∗x + (a·c + b)

computed in float64 and stored in the weight's own type.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
)
from ptq.model.weights.channel_affine import match_arithmetic_affine, match_batch_norm_affine
from ptq.model.weights.layer_weights import count_output_channels, scale_output_channels
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node, set_attributes, set_constant
from ptq.rewrite.match import find_sole_reader

_DEPTHWISE_RANKS = (3, 4)
"""Ranks of tensors for which every runtime has depthwise convolutions."""
LINEAR_OP_PLURALS = {
    "Conv": "convolutions",
    "ConvTranspose": "transposed convolutions",
    "Gemm": "Gemm nodes",
}


def fuse_batchnorm(graph: Graph) -> list[Change]:
    """Fold BatchNormalization and arithmetic with constants into the layer before it, in place.

    A layer with other readers stays unchanged. A BatchNormalization that cannot be folded becomes a depthwise Conv
    with kernel size 1, or Mul and Add where a depthwise Conv is not possible.
    """
    folded: Counter[tuple[str, str]] = Counter()
    replaced = Counter[str]()
    for node in graph.nodes:
        found = _find_linear_before(node)
        if found is not None and _fold_into(graph, node, *found):
            folded[node.op_type, found[0].op_type] += 1
        elif get_operator(node) == "BatchNormalization":
            replaced[_replace_batchnorm(graph, node)] += 1
    changes = [
        Change("fuse_batchnorm", n, old=op, new=LINEAR_OP_PLURALS[layer])
        for (op, layer), n in folded.items()
    ]
    return changes + [
        Change("replace_batchnorm", n, old="BatchNormalization", new=new)
        for new, n in replaced.items()
        if new
    ]


def _find_linear_before(node: Node) -> tuple[Node, Value] | None:
    """The layer whose output this node alone reads, directly or through a Squeeze, and the value that it reads."""
    for value in node.inputs[:2]:
        maker = None if value is None else value.producer()
        linear = _find_linear_behind_squeeze(maker) if maker is not None else None
        if value is None or linear is None:
            continue
        alone = all(find_sole_reader(v) is not None for v in (linear.outputs[0], value))
        return (linear, value) if alone else None
    return None


def _find_linear_behind_squeeze(node: Node) -> Node | None:
    """The layer that this node is, or whose output this node squeezes on axes after the channels."""
    if get_operator(node) in LINEAR_OP_PLURALS:
        return node
    linear = (
        node.inputs[0].producer() if get_operator(node) == "Squeeze" and node.inputs[0] else None
    )
    if linear is None or get_operator(linear) not in LINEAR_OP_PLURALS:
        return None
    rank, axes = len(get_shape(linear.outputs[0]) or ()), _find_squeeze_axes(node)
    behind = axes is not None and rank > 0 and all(axis % rank > 1 for axis in axes)
    return linear if behind else None


def _find_squeeze_axes(node: Node) -> list[int] | None:
    """The constant axes of a Squeeze; None if they are computed or absent."""
    axes = (
        get_constant(node.inputs[1]) if len(node.inputs) > 1 else get_attributes(node).get("axes")
    )
    return None if axes is None else [int(axis) for axis in np.asarray(axes).reshape(-1)]


def _fold_into(graph: Graph, node: Node, linear: Node, read: Value) -> bool:
    weight = get_constant(linear.inputs[1])
    bias_value = linear.inputs[2] if len(linear.inputs) > 2 else None
    bias = get_constant(bias_value)
    if (
        weight is None
        or weight.dtype not in FLOAT_TYPES
        or (bias_value is not None and bias is None)
    ):
        return False
    channels = count_output_channels(linear, weight.shape)
    rank = max(weight.ndim, 2) if read is linear.outputs[0] else len(get_shape(read) or ())
    affine = match_batch_norm_affine(node) or match_arithmetic_affine(node, rank, channels)
    if affine is None or affine.x is not read:
        return False
    if affine.a.size not in (1, channels) or affine.b.size not in (1, channels):
        return False
    c = np.zeros(()) if bias is None else bias.astype(np.float64)
    if linear.op_type == "Gemm":
        if c.size not in (1, channels) or (c.ndim > 0 and c.size > 1 and c.shape[-1] != channels):
            return False
        c = c.reshape(-1) * get_attributes(linear).get("beta", 1.0)
    with np.errstate(over="ignore"):  # a float16 weight that overflows is not folded, see below
        new_bias = np.broadcast_to(affine.a * c + affine.b, (channels,)).astype(weight.dtype)
        new_weight = scale_output_channels(linear, weight, affine.a).astype(weight.dtype)
    if not np.all(np.isfinite(new_weight)) or not np.all(np.isfinite(new_bias)):
        return False
    if np.any(affine.a != 1):
        set_constant(graph, linear, 1, new_weight, "weight")
    set_constant(graph, linear, 2, new_bias, f"{get_name(linear.outputs[0])}_bias")
    if linear.op_type == "Gemm":
        set_attributes(linear, beta=1.0)
    replace_node(graph, node, read)
    return True


def _replace_batchnorm(graph: Graph, node: Node) -> str:
    """Replace a BatchNormalization that is not folded; the operators that replace it, nothing if it stays.

    It stays if its parameters are not constant. A depthwise Conv with kernel size 1 rounds once and has one scale for
    each channel. Mul and Add round twice, with one scale each. ONNX Runtime computes the Conv in 25 to 100 % of the
    time of Mul and Add.
    """
    affine = match_batch_norm_affine(node)
    shape = None if affine is None else get_shape(affine.x)
    dtype = None if affine is None else get_dtype(affine.x)
    if affine is None or shape is None or dtype not in FLOAT_TYPES:
        return ""
    name, column = get_name(node.outputs[0]), (-1, *(1,) * (len(shape) - 2))
    a, b = (v.astype(dtype) for v in (affine.a, affine.b))
    x, offset = affine.x, f"{name}_offset"
    if dtype == np.float32 and len(shape) in _DEPTHWISE_RANKS:
        weight = graph.add_constant(a.reshape(-1, *(1,) * (len(shape) - 1)), f"{name}_scale")
        inputs = [x, weight, graph.add_constant(b, offset)]
        attrs = {"group": a.size, "kernel_shape": [1] * (len(shape) - 2)}
        result = graph.insert(
            "Conv",
            inputs,
            attrs=attrs,
            before=node,
            output=f"{name}_shifted",
            dtype=dtype,
            shape_like=x,
        )
        replace_node(graph, node, result)
        return "a depthwise Conv"
    factor = graph.add_constant(a.reshape(column), f"{name}_scale")
    product = graph.insert(
        "Mul", [x, factor], before=node, output=f"{name}_scaled", dtype=dtype, shape_like=x
    )
    summand = graph.add_constant(b.reshape(column), offset)
    replace_node(
        graph, node, graph.insert("Add", [product, summand], before=node, output=f"{name}_shifted")
    )
    return "Mul and Add"
