"""A network that is hard on purpose: the same function, with one channel a hundred times as large as the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import get_constant
from ptq.rewrite.prepare.prepare import prepare

SAMPLE_DATA = Path(__file__).parents[2] / "sample_data"
CHANNEL, FACTOR = 9, 100.0

WRITERS = ("/block7/project/conv/Conv", "/block8/project/conv/Conv")
READERS = ("/block8/expand/conv/Conv", "/head/conv/Conv")


def hard_model() -> Graph:
    """The sample network with a channel of its last residual stream scaled, and the weights that read it back."""
    graph = prepare(Graph.load(SAMPLE_DATA / "fashion_mobilenet.onnx")).graph
    nodes = {node.name: node for node in graph.nodes}

    def scale(name: str, position: int, where: Any, factor: float) -> None:
        array = get_constant(nodes[name].inputs[position])
        assert array is not None
        scaled = np.array(array)
        scaled[where] *= factor
        value = graph.add_constant(scaled, f"{name}_{position}_scaled")
        nodes[name].replace_input_with(position, value)

    for name in WRITERS:
        scale(name, 1, CHANNEL, FACTOR)
        scale(name, 2, CHANNEL, FACTOR)
    for name in READERS:
        scale(name, 1, (slice(None), CHANNEL), 1 / FACTOR)
    graph.remove_unused()
    return graph
