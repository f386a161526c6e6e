"""What are the sources of a quantization's error?"""

from __future__ import annotations

from dataclasses import replace

from ptq.pipeline import Quantization, written
from ptq.rewrite.probe import Probe, probe
from ptq.rewrite.scores import scores


def apart(made: Quantization, *, own_outputs: bool = False) -> Probe:
    """A quantization, however it is written, taken apart into the sources of its error.

    Args:
        made: The quantization.
        own_outputs: Put out what the model does; without, what a last Softmax, Sigmoid or Concat reads.
    """
    ground, recipe = made.ground, made.recipe
    if recipe.form != "qdq" or recipe.weights != "s8":
        made = written(ground, replace(recipe, form="qdq", weights="s8"), made.plan)
    graph = ground.prepared.graph
    return probe(graph if own_outputs else scores(graph), made.plan, made.quantized)
