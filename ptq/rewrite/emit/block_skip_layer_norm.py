"""LayerNormalization ∘ Add → LayerNormalization ∘ Sum, which ONNX Runtime does not fuse.

ONNX Runtime fuses Add and LayerNormalization to SkipLayerNormalization. This takes 5 ns an element; Add and
LayerNormalization together take 0.8 ns (measured on 1.31.1, one thread). A Sum of two is the same function as Add.
"""

from __future__ import annotations

from collections.abc import Collection

from ptq.model.graph import Graph
from ptq.model.node import get_operator, list_consumers


def prevent_skip_layer_norm_fusion(graph: Graph, floats: Collection[str]) -> None:
    """Replace each float Add before a LayerNormalization by Sum, in place."""
    for node in graph.nodes:
        readers = map(get_operator, list_consumers(node.outputs[0]))
        if get_operator(node) == "Add" and node.name in floats and "LayerNormalization" in readers:
            node.op_type = "Sum"
