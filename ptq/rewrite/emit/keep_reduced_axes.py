"""ReduceMax and ReduceMin without their axes → with axes of length 1, and Squeeze, for a runtime that is wrong there.

Measured in OpenVINO 2026.4, also through Mul, Add, Relu or Concat: where such a node without its axes comes before a
quantizer, the result has 12 to 25 dB. It is right with the axes, and so are all other reductions.
"""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import get_attributes, get_dtype, get_operator
from ptq.rewrite.edit import set_attributes

_AXES_AS_INPUT = 13
"""Opset from which the axes of a Squeeze are an input."""


def keep_reduced_axes(graph: Graph) -> None:
    """Let each ReduceMax and ReduceMin of some axes keep them, and a Squeeze behind it remove them, in place."""
    for node in list(graph.nodes):
        if get_operator(node) not in ("ReduceMax", "ReduceMin"):
            continue
        attributes = get_attributes(node)
        axes = node.inputs[1] if len(node.inputs) > 1 else None
        listed = [int(axis) for axis in attributes.get("axes", ())]
        if attributes.get("keepdims", 1) or (axes is None and not listed):
            continue
        reduced, attrs = node.outputs[0], None
        if graph.opset < _AXES_AS_INPUT:
            attrs = {"axes": listed}
        elif axes is None:
            axes = graph.add_constant(np.array(listed, np.int64), "axes")
        inputs = [reduced] if axes is None else [reduced, axes]
        squeezed = graph.insert(
            "Squeeze", inputs, after=node, attrs=attrs, output=f"{node.name}_squeezed",
            dtype=get_dtype(reduced), shape_like=reduced,
        )  # fmt: skip
        set_attributes(node, keepdims=1)
        readers = [squeeze] if (squeeze := squeezed.producer()) is not None else []
        graph.substitute(reduced, squeezed, keep=readers)
        reduced.shape = None
