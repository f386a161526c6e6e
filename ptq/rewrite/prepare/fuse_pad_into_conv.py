"""Conv, AveragePool ∘ Pad → Conv, AveragePool with padding of its own."""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_operator,
    get_shape,
    list_consumers,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import set_attributes


def fuse_pad_into_conv(graph: Graph) -> list[Change]:
    """Fuse zero padding of spatial axes into its readers if all of them can absorb it, in place."""
    count = 0
    for node in graph.nodes:
        pads = _find_zero_pads(node)
        y = node.outputs[0]
        if pads is None or y.is_graph_output():
            continue
        readers = list_consumers(y)
        if not readers or not all(
            n.graph is node.graph and _can_absorb(n, y, pads) for n in readers
        ):
            continue
        for reader in readers:
            _add_pads(reader, pads)
        assert node.inputs[0] is not None
        graph.substitute(y, node.inputs[0])
        graph.remove(node)
        count += 1
    return [Change("fuse_pad_into_conv", count)] if count else []


def _find_zero_pads(node: Node) -> list[int] | None:
    """The spatial pads of a Pad with zeros, all begins and then all ends; None for other nodes."""
    x = node.inputs[0] if get_operator(node) == "Pad" else None
    shape = None if x is None else get_shape(x)
    pads = get_constant(node.inputs[1]) if x is not None else None
    if (
        pads is None
        or pads.size == 0
        or get_attributes(node).get("mode", "constant") != "constant"
        or pads.min() < 0
    ):
        return None
    value = node.inputs[2] if len(node.inputs) > 2 else None
    fill = None if value is None else get_constant(value)
    if value is not None and (fill is None or np.any(fill != 0)):
        return None
    axes_value = node.inputs[3] if len(node.inputs) > 3 else None
    axes = None if axes_value is None else get_constant(axes_value)
    if axes_value is None:
        full = pads
    elif axes is None or shape is None:
        return None
    else:
        full = np.zeros(2 * len(shape), np.int64)
        full[np.concatenate([axes % len(shape), axes % len(shape) + len(shape)])] = pads
    begins, ends = np.split(full, 2)
    if len(begins) < 3 or begins[:2].any() or ends[:2].any():
        return None
    return [int(p) for p in (*begins[2:], *ends[2:])]


def _can_absorb(node: Node, y: Value, pads: list[int]) -> bool:
    attrs = get_attributes(node)
    if list(node.inputs).count(y) != 1 or node.inputs[0] is not y:
        return False
    if attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    if get_operator(node) == "Conv":
        return True
    own = attrs.get("pads", ())
    return (
        get_operator(node) == "AveragePool"
        and not attrs.get("ceil_mode", 0)
        and (bool(attrs.get("count_include_pad", 0)) or not any(own))
        and all(
            p + q < k  # ONNX Runtime requires pads smaller than the kernel
            for p, q, k in zip(
                pads, own or [0] * len(pads), [*attrs["kernel_shape"]] * 2, strict=True
            )
        )
    )


def _add_pads(node: Node, pads: list[int]) -> None:
    own = get_attributes(node).get("pads") or [0] * len(pads)
    total = [p + q for p, q in zip(own, pads, strict=True)]
    set_attributes(node, pads=total, auto_pad=None)
    if node.op_type == "AveragePool":
        set_attributes(node, count_include_pad=1)
