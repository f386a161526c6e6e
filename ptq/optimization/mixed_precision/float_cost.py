"""How much time does it cost to leave more nodes of a quantization float?"""

from __future__ import annotations

from ptq.core.targets import get_target
from ptq.model.graph import Graph
from ptq.optimization.mixed_precision.float_candidates import CostFunction
from ptq.rewrite.instrument.error_sources import ErrorProbe, build_error_probe
from ptq.solver.partition.partition import FloatTimeModel
from ptq.solver.quantizer import QuantizedModel, apply_plan
from ptq.solver.solve import assign_precision_and_groups


def error_sources_of(made: QuantizedModel, graph: Graph) -> ErrorProbe:
    """A quantization, however it is written, taken apart into the sources of its error.

    Args:
        made: The quantization.
        graph: The prepared model, as it is or with other outputs: those whose errors are asked for.
    """
    plain = made.recipe.as_signed_qdq()
    if made.recipe != plain:
        made = apply_plan(made.calibrated_model, plain, made.plan)
    return build_error_probe(graph, made.plan, made.quantized_graph)


_NODE_OVERHEAD = 10_000.0
"""Passes, 2 µs: what any operator costs beside its work."""


def float_time_model(made: QuantizedModel) -> FloatTimeModel:
    """What leaving more nodes float costs, in passes over the elements of a tensor."""
    ground, row = made.calibrated_model, get_target(made.plan.target)
    graph = ground.prepared.graph
    fate, _ = assign_precision_and_groups(
        graph, ground.calibration.tensors, row, made.recipe.float_nodes
    )
    specs = {name: integer.spec for name, integer in fate.quantized_nodes.items()}
    return FloatTimeModel(graph, specs, fate.fused_activations, row)


def time_cost(slower: FloatTimeModel) -> CostFunction:
    """The same above 0: no node is left float for nothing."""
    return lambda more, floats: max(0.0, slower(more, floats)) + _NODE_OVERHEAD * len(more)
