"""First layers that are faster in float: convolutions that read few channels of an input of the model.

An integer convolution gathers its input pixel by pixel, byte by byte where the channels are no multiple of four. In
the first layer of YOLOv8n (3 channels of 320 × 320 pixels) that takes longer than the products: 0.48 ms in all, and
0.22 ms in float (ONNX Runtime 1.32, AVX512 with VNNI).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ptq.model.node import Node, get_constant_shape, get_node_name, get_operator, list_consumers
from ptq.solver.partition.cost_model import KernelCost
from ptq.solver.partition.partition_cost import PartitionProblem, is_product

_LEAST_GAIN = 0.25
"""The share of a first layer's integer time that float must save, with all quantizers: costs are estimates."""
_LEAST_SHARE = 0.01
"""The same as a share of the whole time: less shows in no model."""


def leave_first_layers_float(
    problem: PartitionProblem,
    costs: Mapping[str, KernelCost],
    integers: Collection[str],
    others: float,
) -> set[str]:
    """The integer nodes without the first layers, and what is near them, that are clearly faster in float.

    Args:
        problem: The nodes to partition.
        costs: The cost of each node.
        integers: The integer nodes so far.
        others: Passes of nodes that cannot be quantized.
    """
    kept = {name: node for name, node in problem.nodes.items() if name in integers}
    for name in list(kept):
        if not _is_first_layer(problem, name):
            continue
        some = replace(problem, nodes=kept)
        found = some.integer_nodes(_find_nodes_near(some, name), costs)
        before, after = (problem.cost_of(nodes, costs) for nodes in (kept, found))
        least = max(_LEAST_GAIN * costs[name].integer_cost, _LEAST_SHARE * (before + others))
        if name not in found and before - after >= least and _has_product(some, found):
            kept = {name: node for name, node in kept.items() if name in found}
    return set(kept)


def _is_first_layer(problem: PartitionProblem, name: str) -> bool:
    """Whether the node is a convolution of few channels that reads an input, moved at most."""
    node = problem.nodes[name]
    weight = get_constant_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    if get_operator(node) != "Conv" or not weight or weight[1] >= problem.costs.gather_depth:
        return False
    movers = _list_movers(problem, node)
    value = movers[-1].inputs[0] if movers else node.inputs[0]
    return value is not None and value.is_graph_input()


def _list_movers(problem: PartitionProblem, node: Node) -> list[Node]:
    """The data movement before a node, the nearest first."""
    found, value = list[Node](), node.inputs[0]
    while value is not None and (maker := value.producer()) is not None:
        spec = problem.specs.get(get_node_name(maker))
        if spec is None or not spec.follows_neighbours:
            break
        found.append(maker)
        value = maker.inputs[0]
    return found


def _find_nodes_near(problem: PartitionProblem, first: str) -> set[str]:
    """The layer, the data movement before it, and what is behind it up to the next products, past float nodes too."""
    ahead = [problem.nodes[first]]
    near = dict.fromkeys([*ahead, *_list_movers(problem, ahead[0])])
    while ahead:
        for value in ahead.pop().outputs:
            new = [n for n in list_consumers(value) if n not in near and not problem.sets_layout(n)]
            near.update(dict.fromkeys(new))
            ahead += new
    return {get_node_name(node) for node in near if node.name in problem.nodes}


def _has_product(problem: PartitionProblem, names: Collection[str]) -> bool:
    return any(is_product(problem.specs[name]) for name in names)
