"""What are the sources of a quantization's error?"""

from __future__ import annotations

from dataclasses import replace

from ptq.graph import Graph
from ptq.pipeline import Quantization, written
from ptq.rewrite.probe import Probe, probe


def apart(made: Quantization, graph: Graph) -> Probe:
    """A quantization, however it is written, taken apart into the sources of its error.

    Args:
        made: The quantization.
        graph: The prepared model, as it is or with other outputs: those whose errors are asked for.
    """
    recipe = made.recipe
    if recipe.form != "qdq" or recipe.weights != "s8":
        made = written(made.ground, replace(recipe, form="qdq", weights="s8"), made.plan)
    return probe(graph, made.plan, made.quantized)
