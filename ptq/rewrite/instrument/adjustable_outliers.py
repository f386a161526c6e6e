"""A model whose outlier channels are split off by factors that are its inputs: one session tries them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.rewrite.edit import initializers_to_inputs
from ptq.rewrite.equalize.split_outliers import SplitSite


@dataclass(frozen=True, eq=False)
class AdjustableOutliers:
    """The float model with what products read rounded, the parameters of that being inputs.

    Attributes:
        graph: It.
        inputs: By tensor, the inputs for the factors m, for 1/m or 0, for the scale and for the zero point.
    """

    graph: Graph
    inputs: Mapping[str, tuple[str, str, str, str]]


def make_outlier_factors_inputs(graph: Graph, found: Sequence[SplitSite]) -> AdjustableOutliers:
    """Round each site's channels, multiplied by factors, but for those whose factor is 0."""
    changed = graph.copy()
    nodes = {node.name: node for node in changed.nodes}
    inputs: dict[str, tuple[str, str, str, str]] = {}
    types: dict[str, tuple[DTypeLike, int]] = {}
    for site in found:
        products = [nodes[node.name] for node in site.products]
        value, first = products[0].inputs[0], products[0]
        one = np.ones((), np.float32)
        given = [changed.add_constant(a, "knob") for a in (one, one, one, np.zeros((), np.uint8))]
        by, back, *levels = given
        scaled = changed.insert("Mul", [value, by], before=first, output="scaled")
        rest = changed.insert("Mul", [scaled, back], before=first, output="rest")
        apart = changed.insert("Sub", [value, rest], before=first, output="apart")
        codes = changed.insert("QuantizeLinear", [scaled, *levels], before=first, output="codes")
        real = changed.insert("DequantizeLinear", [codes, *levels], before=first, output="real")
        rounded = changed.insert("Mul", [real, back], before=first, output="rounded")
        whole = changed.insert("Add", [rounded, apart], before=first, output="whole")
        for node in products:
            node.replace_input_with(0, whole)
        names = [name_of(v) for v in given]
        inputs[site.tensor] = names[0], names[1], names[2], names[3]
        kinds = [(np.float32, 1), (np.float32, 1), (np.float32, 0), (np.uint8, 0)]
        types |= dict(zip(names, kinds, strict=True))
    changed.sort()
    return AdjustableOutliers(initializers_to_inputs(changed, types), inputs)
