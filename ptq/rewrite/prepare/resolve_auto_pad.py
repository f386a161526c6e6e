"""auto_pad → explicit pads, for static sizes.

    SAME:  out = ⌈in / stride⌉,  total = max((out − 1)·stride + kernel − in, 0)

An odd total has the larger pad at the end (SAME_UPPER) or at the beginning (SAME_LOWER): ONNX operators, Conv and
MaxPool. A pool with dilations gets the pads of ONNX Runtime, which leaves dilation out of the total, against the
specification; the pads may be too few for ⌈in / stride⌉ windows. A Conv with dilations stays unchanged.
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
    """Replace auto_pad by pads where sizes are static, and write kernel_shape of convolutions, in place.

    Dilations of 1 are removed from an AveragePool: ONNX Runtime's integer kernel has no such attribute.
    """
    count = 0
    for node in graph.nodes:
        if get_operator(node) not in PADDED_OPS:
            continue
        weight = (
            get_shape(node.inputs[1]) if node.op_type in CONVOLUTIONS and node.inputs[1] else None
        )
        if "kernel_shape" not in node.attributes and weight is not None and None not in weight:
            set_attributes(node, kernel_shape=[d for d in weight[2:] if d is not None])
        if node.op_type == "AveragePool" and {*get_attributes(node).get("dilations", ())} == {1}:
            set_attributes(node, dilations=None)
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
    if node.op_type == "ConvTranspose" or shape is None or None in shape[2:]:
        return False
    if dilated and node.op_type == "Conv":
        return False
    begins, ends = [], []
    strides = attrs.get("strides", [1] * len(kernel))
    for size, k, stride in zip(shape[2:], kernel, strides, strict=True):
        assert size is not None
        lower = mode == "SAME_LOWER"
        begin, end = compute_same_pads(size, k, stride, lower=lower, may_crop=dilated)
        begins.append(begin)
        ends.append(end)
    if min(begins + ends) < 0:
        return False  # only with auto_pad may pads be negative
    set_attributes(node, auto_pad=None, pads=begins + ends)
    if not dilated:
        # With these pads, rounding down gives out = ⌈in / stride⌉; ceil_mode could give one more.
        set_attributes(node, ceil_mode=None)
    return True
