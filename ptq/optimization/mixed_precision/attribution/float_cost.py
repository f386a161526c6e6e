"""The time that more float nodes cost."""

from __future__ import annotations

from ptq.core.targets import get_target
from ptq.optimization.mixed_precision.attribution.float_candidates import CostFunction
from ptq.solver.assign import assign_precision_and_groups
from ptq.solver.partition.partition import FloatTimeModel
from ptq.solver.quantizer import QuantizedModel

_NODE_OVERHEAD = 10_000.0
"""The cost of any operator in addition to its work, in passes over elements: 2 µs."""


def build_float_time_model(quantized: QuantizedModel) -> FloatTimeModel:
    """The model of the time that more float nodes cost, in passes over the elements of a tensor."""
    model, row = quantized.calibrated_model, get_target(quantized.plan.target)
    graph = model.prepared.graph
    precision, _ = assign_precision_and_groups(
        graph, model.calibration.tensors, row, quantized.recipe.float_nodes
    )
    specs = {name: node.spec for name, node in precision.quantized_nodes.items()}
    return FloatTimeModel(graph, specs, precision.fused_activations, row)


def make_time_cost(time_model: FloatTimeModel) -> CostFunction:
    """The cost function of a time model, raised above 0 so that no node is kept in float without gain."""
    return lambda more, floats: max(0.0, time_model(more, floats)) + _NODE_OVERHEAD * len(more)
