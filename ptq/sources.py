"""What are the sources of a quantization's error?"""

from __future__ import annotations

from ptq.graph import Graph
from ptq.pipeline import Quantization, written
from ptq.rewrite.probe import Probe, probe


def apart(made: Quantization, graph: Graph) -> Probe:
    """A quantization, however it is written, taken apart into the sources of its error.

    Args:
        made: The quantization.
        graph: The prepared model, as it is or with other outputs: those whose errors are asked for.
    """
    plain = made.recipe.plain()
    if made.recipe != plain:
        made = written(made.ground, plain, made.plan)
    return probe(graph, made.plan, made.quantized)
