"""auto_pad → explicit pads, for static sizes.

    SAME:  out = ⌈in / stride⌉,  total = max((out − 1)·stride + kernel − in, 0)

An odd total has the larger pad at the end (SAME_UPPER) or at the beginning (SAME_LOWER): ONNX operators, Conv and
MaxPool. These nodes keep auto_pad:

1. nodes with dilations, where the specification and ONNX Runtime disagree, also on the output's size;
2. pools whose first window ONNX Runtime begins inside the image, as strides skip two positions or more.
"""

from __future__ import annotations

from ptq.core.same_padding import compute_same_pads
from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes, get_operator, get_shape
from ptq.rewrite.change import Change
from ptq.rewrite.edit import set_attributes

CONVOLUTIONS = ("Conv", "ConvTranspose")
PADDED_OPS = (*CONVOLUTIONS, "AveragePool", "MaxPool", "LpPool")


def resolve_auto_pad(graph: Graph) -> list[Change]:
    """Replace auto_pad by pads where sizes are static, and write kernel_shape of convolutions, in place."""
    count = 0
    for node in graph.nodes:
        if get_operator(node) not in PADDED_OPS:
            continue
        weight = (
            get_shape(node.inputs[1]) if node.op_type in CONVOLUTIONS and node.inputs[1] else None
        )
        if "kernel_shape" not in node.attributes and weight is not None and None not in weight:
            set_attributes(node, kernel_shape=[d for d in weight[2:] if d is not None])
        count += _resolve(node)
    return [Change("resolve_auto_pad", count)] if count else []


def _resolve(node: Node) -> bool:
    attrs = get_attributes(node)
    kernel, mode = attrs.get("kernel_shape"), attrs.get("auto_pad", "NOTSET")
    if mode == "NOTSET" or kernel is None:
        return False
    if mode == "VALID":
        set_attributes(node, auto_pad=None, pads=[0] * (2 * len(kernel)))
        return True
    shape = None if node.inputs[0] is None else get_shape(node.inputs[0])
    dilated = any(d != 1 for d in attrs.get("dilations", ()))
    if node.op_type == "ConvTranspose" or dilated or shape is None or None in shape[2:]:
        return False
    begins, ends = [], []
    strides = attrs.get("strides", [1] * len(kernel))
    for size, k, stride in zip(shape[2:], kernel, strides, strict=True):
        assert size is not None
        lower, is_pool = mode == "SAME_LOWER", node.op_type not in CONVOLUTIONS
        begin, end = compute_same_pads(size, k, stride, lower=lower, may_crop=is_pool)
        if begin < 0:
            return False  # only with auto_pad may pads be negative
        begins.append(begin)
        ends.append(max(end, 0))  # positions that no window reads
    # With these pads, rounding down gives out = ⌈in / stride⌉; ceil_mode could give one more.
    set_attributes(node, auto_pad=None, pads=begins + ends, ceil_mode=None)
    return True
