"""How much time does it cost to leave more nodes of a quantization float?"""

from __future__ import annotations

from ptq.core.targets import target
from ptq.model.graph import Graph
from ptq.optimization.mixed_precision.float_candidates import Toll
from ptq.rewrite.instrument.error_sources import Probe, probe
from ptq.solver.partition.partition import Passes
from ptq.solver.quantizer import Quantization, written
from ptq.solver.solve import fates


def apart(made: Quantization, graph: Graph) -> Probe:
    """A quantization, however it is written, taken apart into the sources of its error.

    Args:
        made: The quantization.
        graph: The prepared model, as it is or with other outputs: those whose errors are asked for.
    """
    plain = made.recipe.plain()
    if made.recipe != plain:
        made = written(made.ground, plain, made.plan)
    return probe(graph, made.plan, made.quantized)


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
