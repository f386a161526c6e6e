"""Outlier splitting after LLM.int8: outlier channels of what products read are multiplied in float.

    x W = (m ⊙ x) (W / m) + x_F W_F       m is 0 for the channels F, whose rows W / m leaves out

This is exact except for rounding. One scale for all channels then spans only the other channels. It serves them the
better, the closer the factors m bring their ranges together. Dettmers et al. 2022, "LLM.int8(): 8-bit Matrix
Multiplication for Transformers at Scale", chooses the channels for each input anew. Here they are fixed before
inference, so that the model stays static.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.opspec import WEIGHT_INPUT
from ptq.core.union_find import UnionFind
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_constant_shape,
    get_dtype,
    get_name,
    get_node_name,
    get_operator,
    get_shape,
    list_consumers,
)
from ptq.model.weights.matrix_layout import view_input_output_matrix
from ptq.model.weights.shared_weights import find_weight_families

_Insert = Callable[[str, list[Value | None], Node | None, str], Value]


@dataclass(frozen=True, eq=False)
class SplitSite:
    """A tensor that products read, with its channels along the last axis.

    Attributes:
        tensor: The name of the tensor.
        products: The nodes that multiply it by a constant matrix.
    """

    tensor: str
    products: tuple[Node, ...]

    def channel_counts(self) -> tuple[int, int]:
        """The number of input channels, and the number of output channels of all products together."""
        matrices = [get_weight_by_input_channel(node) for node in self.products]
        return matrices[0].shape[0], sum(matrix.shape[1] for matrix in matrices)


def split_sites(graph: Graph, integers: Collection[str]) -> list[SplitSite]:
    """The tensors that products among the integer nodes read, in graph order."""
    found = []
    for value in (*graph.inputs, *(v for node in graph.nodes for v in node.outputs)):
        readers = [node for node in list_consumers(value) if node.name in integers]
        products = tuple(node for node in readers if _is_product_of(node, value))
        if products:
            found.append(SplitSite(get_name(value), products))
    return found


def group_tied_sites(graph: Graph, found: Sequence[SplitSite]) -> list[tuple[str, ...]]:
    """The tensors of the sites in groups: products of one group's tensors share weights, so one split serves all."""
    families = find_weight_families(graph)
    tied, first = UnionFind(range(len(found))), dict[tuple[str, ...], int]()
    for number, site in enumerate(found):
        for node in site.products:
            if node.name in families:
                tied.union(first.setdefault(families[node.name], number), number)
    return [tuple(found[number].tensor for number in group) for group in tied.list_groups()]


def split_channels(
    graph: Graph, found: Sequence[SplitSite], factors: Mapping[str, NDArray[np.float32]]
) -> tuple[Graph, list[str]]:
    """A graph that computes outlier channels in separate products, and the names of the added nodes.

    Args:
        graph: A prepared graph.
        found: Its sites.
        factors: By tensor, the factor of each channel, 0 for at least one outlier channel; sites of other tensors
            stay unchanged.
    """
    changed = graph.copy()
    nodes = {node.name: node for node in changed.nodes}
    families, known = find_weight_families(changed), dict[tuple[Any, ...], Value]()
    added: list[str] = []

    def add_weight(node: Node, by: NDArray[np.float32], part: str, array: Any) -> Value:
        """Add a part of a node's weight, once for all nodes that share the weight and the factors."""
        key = families.get(get_node_name(node), node.name), by.tobytes(), part
        if key not in known:
            known[key] = changed.add_constant(array, f"{node.name}_{part}")
        return known[key]

    def insert(op: str, inputs: list[Value | None], after: Node | None, output: str) -> Value:
        first = None if after is not None else changed.nodes[0]
        attrs = {"axis": -1} if op == "Gather" else {}
        result = changed.insert(op, inputs, after=after, before=first, attrs=attrs, output=output)
        maker = result.producer()
        assert maker is not None
        added.append(get_node_name(maker))
        return result

    for site in found:
        if site.tensor not in factors:
            continue
        by = factors[site.tensor]
        outliers = np.flatnonzero(by == 0)
        products = [nodes[node.name] for node in site.products]
        value = products[0].inputs[0]
        assert value is not None
        writer, name = value.producer(), site.tensor
        indices = changed.add_constant(outliers, f"{name}_channels")
        mask = changed.add_constant(by, f"{name}_factors")
        outlier_values = insert("Gather", [value, indices], writer, f"{name}_apart")
        masked_values = insert("Mul", [value, mask], writer, f"{name}_rest")
        for node in products:
            rows = get_weight_by_input_channel(node)
            weight = add_weight(node, by, "apart", rows[outliers])
            if (by[by != 0] != 1).any():
                divided = rows / np.where(by == 0, 1, by)[:, None]
                divided[outliers] = 0
                array = view_input_output_matrix(divided, get_attributes(node))
                node.replace_input_with(WEIGHT_INPUT, add_weight(node, by, "divided", array))
            node.replace_input_with(0, masked_values)
            _add_float_product(changed, node, outlier_values, weight, insert)
    changed.sort()
    changed.remove_unused()
    return changed.with_shapes(), added


def _add_float_product(
    graph: Graph, node: Node, outlier_values: Value, weight: Value, insert: _Insert
) -> None:
    """Add a float product to the output of a product; the sum takes the name of this output."""
    old = node.outputs[0]
    name = get_name(old)
    if get_operator(node) == "Gemm":
        total = insert("Gemm", [outlier_values, weight, old], node, f"{name}_whole")
    else:
        product = insert("MatMul", [outlier_values, weight], node, f"{name}_part")
        total = insert("Add", [old, product], product.producer(), f"{name}_whole")
    maker = total.producer()
    assert maker is not None
    total.type, total.shape = old.type, old.shape
    graph.substitute(old, total, keep=[maker], rename_old="rest")


def _is_product_of(node: Node, value: Value) -> bool:
    """Whether the node multiplies the value by a constant matrix, with the channels along its last axis."""
    if get_operator(node) not in ("MatMul", "Gemm") or node.inputs[0] is not value:
        return False
    attrs, weight = get_attributes(node), node.inputs[WEIGHT_INPUT]
    plain = not attrs.get("transA") and attrs.get("alpha", 1.0) == 1.0
    matrix = weight is not None and len(get_constant_shape(weight) or ()) == 2
    float32 = weight is not None and get_dtype(weight) == np.float32
    return plain and matrix and float32 and len(get_shape(value) or ()) > 1


def get_weight_by_input_channel(node: Node) -> NDArray[np.float32]:
    """The weight of a product, shape (input channels, output channels)."""
    return view_input_output_matrix(
        np.asarray(get_constant(node.inputs[WEIGHT_INPUT])), get_attributes(node)
    )
