"""Takes channels that dwarf the others out of what products round; their part of the sums is computed in float.

    x W = (m ⊙ x) (W / m) + x_F W_F       m is 0 for the channels F, whose rows W / m leaves out

Exact but for rounding. A scale for all channels then spans only those that are left, and serves them all the better
the more alike the factors m make them. After Dettmers et al. 2022,
"LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale", whose channels are chosen anew for each input;
here they are fixed beforehand, so that the model stays a static one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    name_of,
    operator_of,
    shape_of,
)

_Insert = Callable[[str, list[Value | None], Node | None, str], Value]


@dataclass(frozen=True, eq=False)
class SplitSite:
    """A tensor that products read, channels along its last axis.

    Attributes:
        tensor: Its name.
        products: The nodes that multiply it by a constant matrix.
    """

    tensor: str
    products: tuple[Node, ...]

    def channel_counts(self) -> tuple[int, int]:
        """Channels in, and those out of all products."""
        matrices = [weight_by_input_channel(node) for node in self.products]
        return matrices[0].shape[0], sum(matrix.shape[1] for matrix in matrices)


def split_sites(graph: Graph, integers: Collection[str]) -> list[SplitSite]:
    """The tensors that products among the named nodes read, in graph order."""
    found = []
    for value in (*graph.inputs, *(v for node in graph.nodes for v in node.outputs)):
        readers = [node for node in consumers_of(value) if node.name in integers]
        products = tuple(node for node in readers if _is_product_of(node, value))
        if products:
            found.append(SplitSite(name_of(value), products))
    return found


def split_channels(
    graph: Graph, found: Sequence[SplitSite], factors: Mapping[str, NDArray[np.float32]]
) -> tuple[Graph, list[str]]:
    """A graph that computes the same with channels taken out, and the names of the nodes that do not round.

    Args:
        graph: A prepared graph.
        found: Its sites.
        factors: By tensor, what its channels are multiplied by, 0 for those to take out, of which there are some;
            sites that are not named stay as they are.
    """
    changed = graph.copy()
    nodes = {node.name: node for node in changed.nodes}
    added: list[str] = []

    def insert(op: str, inputs: list[Value | None], after: Node | None, output: str) -> Value:
        first = None if after is not None else changed.nodes[0]
        attrs = {"axis": -1} if op == "Gather" else {}
        made = changed.insert(op, inputs, after=after, before=first, attrs=attrs, output=output)
        maker = made.producer()
        assert maker is not None
        added.append(maker.name or "")
        return made

    for site in found:
        if site.tensor not in factors:
            continue
        by = factors[site.tensor]
        few = np.flatnonzero(by == 0)
        products = [nodes[node.name] for node in site.products]
        value = products[0].inputs[0]
        assert value is not None
        where, name = value.producer(), site.tensor
        chosen = changed.add_constant(few, f"{name}_channels")
        masked = changed.add_constant(by, f"{name}_factors")
        apart = insert("Gather", [value, chosen], where, f"{name}_apart")
        rest = insert("Mul", [value, masked], where, f"{name}_rest")
        for node in products:
            rows = weight_by_input_channel(node)
            weight = changed.add_constant(rows[few], f"{node.name}_apart")
            if (by[by != 0] != 1).any():
                divided = rows / np.where(by == 0, 1, by)[:, None]
                divided[few] = 0
                laid = divided.T if attributes_of(node).get("transB") else divided
                node.replace_input_with(1, changed.add_constant(laid, f"{node.name}_divided"))
            node.replace_input_with(0, rest)
            _add_float_product(changed, node, apart, weight, insert)
    changed.sort()
    changed.remove_unused()
    return changed.with_shapes(), added


def _add_float_product(
    graph: Graph, node: Node, apart: Value, weight: Value, insert: _Insert
) -> None:
    """Add a float product to what a product puts out, under the name that this had."""
    old = node.outputs[0]
    name = name_of(old)
    if operator_of(node) == "Gemm":
        whole = insert("Gemm", [apart, weight, old], node, f"{name}_whole")
    else:
        part = insert("MatMul", [apart, weight], node, f"{name}_part")
        whole = insert("Add", [old, part], part.producer(), f"{name}_whole")
    maker = whole.producer()
    assert maker is not None
    if old.is_graph_output():
        graph.replace_output(old, whole)
    else:
        old.name = graph.unique_name(f"{name}_rest")
        whole.name, whole.type, whole.shape = name, old.type, old.shape
    graph.redirect(old, whole, keep=[maker])


def _is_product_of(node: Node, value: Value) -> bool:
    """Whether the node multiplies the value, channels along its last axis, by a constant matrix."""
    if operator_of(node) not in ("MatMul", "Gemm") or node.inputs[0] is not value:
        return False
    attrs, weight = attributes_of(node), constant_of(node.inputs[1])
    plain = not attrs.get("transA") and attrs.get("alpha", 1.0) == 1.0
    matrix = weight is not None and weight.ndim == 2 and weight.dtype == np.float32
    return plain and matrix and len(shape_of(value) or ()) > 1


def weight_by_input_channel(node: Node) -> NDArray[np.float32]:
    """The weight of a product, (channels of what it reads, sums)."""
    weight = np.asarray(constant_of(node.inputs[1]))
    return weight.T if attributes_of(node).get("transB") else weight
