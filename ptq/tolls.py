"""How much time does it cost to leave more nodes of a quantization float?"""

from __future__ import annotations

from ptq.moves import Toll
from ptq.pipeline import Quantization
from ptq.scope.worth import Passes
from ptq.solve import fates
from ptq.targets import target

_CALL = 10_000.0
"""Passes, 2 µs: what any operator costs beside its work."""


def passes(made: Quantization) -> Passes:
    """What leaving more nodes float costs, in passes over the elements of a tensor."""
    ground, row = made.ground, target(made.plan.target)
    graph = ground.prepared.graph
    fate, _ = fates(graph, ground.calibration.tensors, row, made.recipe.floats)
    specs = {name: integer.spec for name, integer in fate.integers.items()}
    return Passes(graph, specs, fate.fused, row)


def toll(slower: Passes) -> Toll:
    """The same above 0: no node is left float for nothing."""
    return lambda more, floats: max(0.0, slower(more, floats)) + _CALL * len(more)
