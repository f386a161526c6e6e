"""The error sources of a quantized model."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.rewrite.instrument.error_sources import ErrorProbe, build_error_probe
from ptq.solver.quantizer import QuantizedModel, apply_plan


def build_quantized_error_probe(quantized: QuantizedModel, graph: Graph) -> ErrorProbe:
    """A probe of the error sources of a quantized model, whatever its form.

    Args:
        quantized: The quantized model.
        graph: The prepared model; its outputs, which may be others, are those whose errors are measured.
    """
    plain = quantized.recipe.as_signed_qdq()
    if quantized.recipe != plain:
        quantized = apply_plan(quantized.calibrated_model, plain, quantized.plan)
    return build_error_probe(graph, quantized.plan, quantized.quantized_graph)
