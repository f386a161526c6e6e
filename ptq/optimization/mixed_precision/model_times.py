"""Estimated times of a model with some nodes left float, with the partition that the solver would choose then."""

from __future__ import annotations

from collections.abc import Collection

from ptq.core.targets import get_target
from ptq.solver.assign import PrecisionRules
from ptq.solver.partition.cost_table import OrtCostTable
from ptq.solver.partition.eligibility import PrecisionAssignment
from ptq.solver.partition.model_time import ModelTime
from ptq.solver.partition.shipped_tables import get_cost_table
from ptq.solver.quantizer import QuantizedModel

_REASON = "for an estimate"


class FloatSetTimes:
    """Estimates the time of a model from the nodes that are left float.

    Attributes:
        in_float: Passes of the model without integers.
        all_int8: Passes of the quantized model as it is.
        is_small: Whether calls and copies take longer than what the table estimates.
    """

    def __init__(self, quantized: QuantizedModel, table: OrtCostTable) -> None:
        """``quantized`` is the model with the most integers."""
        self._made = quantized
        model, target = quantized.calibrated_model, get_target(quantized.plan.target)
        graph = model.prepared.graph
        self._rules = PrecisionRules(graph, model.calibration.tensors, target)
        precision = self._assign(())
        self._time = ModelTime(graph, precision.fused_activations, target, table)
        self.in_float, self.is_small = self._time.in_float, self._time.is_small
        self.all_int8 = self._time.estimate(precision.quantized_nodes)
        self._integers = frozenset(precision.quantized_nodes)
        self._estimated = dict[frozenset[str], float]()

    def estimate(self, floats: frozenset[str]) -> float:
        """The passes with these nodes in float too; neighbours that integers no longer gain go with them."""
        if floats not in self._estimated:
            self._estimated[floats] = self._time.estimate(self._assign(floats).quantized_nodes)
        return self._estimated[floats]

    def add_neighbours(self, floats: frozenset[str]) -> frozenset[str]:
        """These nodes, and the neighbours that go float with them."""
        return floats | self._integers.difference(self._assign(floats).quantized_nodes)

    def _assign(self, floats: Collection[str]) -> PrecisionAssignment:
        skip = {**self._made.recipe.float_nodes, **dict.fromkeys(sorted(floats), _REASON)}
        return self._rules.assign(skip)[0]


def estimate_speed(quantized: QuantizedModel) -> float | None:
    """The estimated speed of a quantized model relative to float; None without a table of times or if it is small."""
    target = get_target(quantized.plan.target)
    table, graph = get_cost_table(target), quantized.calibrated_model.prepared.graph
    if table is None:
        return None
    folded = {
        **quantized.plan.folded,
        **{name: c.producer for name, c in quantized.plan.clamps.items()},
    }
    time = ModelTime(graph, folded, target, table)
    integers = [node.name or "" for node in graph.nodes if node.name not in quantized.plan.floats]
    return None if time.is_small else time.in_float / time.estimate(integers)
