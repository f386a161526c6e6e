"""Model in which the factors that split off outlier channels are graph inputs: one session evaluates all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.core.types import QType
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.rewrite.equalize.split_outliers import SplitSite


@dataclass(frozen=True, eq=False)
class AdjustableOutliers:
    """The float model with rounded inputs of products; the parameters of the rounding are graph inputs.

    Attributes:
        graph: The model.
        inputs: By tensor, the names of the inputs for the factors m, for 1/m or 0, for the scale and the zero point.
    """

    graph: Graph
    inputs: Mapping[str, tuple[str, str, str, str]]


def make_outlier_factors_inputs(
    graph: Graph, found: Sequence[SplitSite], qtype: QType
) -> AdjustableOutliers:
    """Round the channels of each site, multiplied by factors, to integers; those with factor 0 stay exact."""
    changed = graph.copy()
    nodes = {node.name: node for node in changed.nodes}
    inputs: dict[str, tuple[str, str, str, str]] = {}
    for site in found:
        products = [nodes[node.name] for node in site.products]
        value, first = products[0].inputs[0], products[0]
        one = np.ones((), np.float32)
        defaults = (one, one, one, np.zeros((), qtype.dtype))
        constants = [changed.add_constant(array, "adjustable") for array in defaults]
        factors, inverse, *qparams = constants
        scaled = changed.insert("Mul", [value, factors], before=first, output="scaled")
        rest = changed.insert("Mul", [scaled, inverse], before=first, output="rest")
        outliers = changed.insert("Sub", [value, rest], before=first, output="apart")
        codes = changed.insert("QuantizeLinear", [scaled, *qparams], before=first, output="codes")
        real = changed.insert("DequantizeLinear", [codes, *qparams], before=first, output="real")
        rounded = changed.insert("Mul", [real, inverse], before=first, output="rounded")
        total = changed.insert("Add", [rounded, outliers], before=first, output="whole")
        for node in products:
            node.replace_input_with(0, total)
        names = [get_name(v) for v in constants]
        inputs[site.tensor] = names[0], names[1], names[2], names[3]
        for constant, rank in zip(constants, (1, 1, 0, 0), strict=True):
            changed.make_input(constant, rank)
    changed.sort()
    return AdjustableOutliers(changed, inputs)
