"""The estimated time of a whole model with some nodes on integers, by a table of measured times.

Quantizers at the borders of float nodes count, and so do the activations that a producer no longer does for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ptq.core.ops import OPS
from ptq.core.target import Target
from ptq.model.graph import Graph
from ptq.model.node import get_node_name, get_spec_name
from ptq.solver.partition.cost_model import estimate_sizes, price_kernel
from ptq.solver.partition.cost_table import OrtCostTable
from ptq.solver.partition.partition_cost import PartitionProblem


class ModelTime:
    """Estimates the time of a model from the set of its integer nodes.

    Attributes:
        in_float: Passes of the model without integers.
        is_small: Whether calls and copies take longer than what the table estimates.
    """

    def __init__(
        self, graph: Graph, fused: Mapping[str, str], target: Target, table: OrtCostTable
    ) -> None:
        """Estimate each node alone.

        Args:
            graph: The prepared graph, shapes inferred.
            fused: Activations whose work a producer does at no cost, with that producer.
            target: The target to quantize for.
            table: Measured times.
        """
        nodes = {get_node_name(n): n for n in graph.nodes if get_spec_name(n) in OPS}
        specs = {name: OPS[get_spec_name(node)] for name, node in nodes.items()}
        size = estimate_sizes(graph)
        self._costs = {
            name: price_kernel(node, specs[name], size, table) for name, node in nodes.items()
        }
        self._problem = PartitionProblem(nodes, specs, fused, size, target, table)
        self._others = self._problem.estimate_others(graph)
        self.in_float = self.estimate(())
        self.is_small = self.in_float <= table.small_model

    def estimate(self, integers: Collection[str]) -> float:
        """The passes of the model with these nodes on integers and all others in float."""
        return self._problem.cost_of(integers, self._costs) + self._others
