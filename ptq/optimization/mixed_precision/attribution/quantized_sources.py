"""The error sources of a quantized model."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.rewrite.instrument.error_sources import ErrorProbe, build_error_probe
from ptq.solver.quantizer import QuantizedModel, apply_plan


def error_sources_of(made: QuantizedModel, graph: Graph) -> ErrorProbe:
    """A probe of the error sources of a quantized model, whatever its form.

    Args:
        made: The quantized model.
        graph: The prepared model; its outputs, which may be others, are those whose errors are measured.
    """
    plain = made.recipe.as_signed_qdq()
    if made.recipe != plain:
        made = apply_plan(made.calibrated_model, plain, made.plan)
    return build_error_probe(graph, made.plan, made.quantized_graph)
