"""Which nodes are best left float where a quantized model is too far from float?

What each rounding adds to each output is weighed on the float model, first in groups and then apart, so that a
network of hundreds of nodes takes fewer runs than it has nodes. The nodes follow that win most of what is needed for
the time that they cost in float; the model that results is measured, and what is still too far is weighed anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptq.errors import DataError, ModelError
from ptq.moves import covering
from ptq.pipeline import Quantization
from ptq.scope.worth import Toll
from ptq.selfcheck.fitness import Fault, Truth, attempt, fault
from ptq.solve import fates
from ptq.sources import apart
from ptq.targets import target
from ptq.weighing import weighed

ROUNDS = 4
SAMPLES = 4  # that errors are weighed on
FEWER = 3  # steps that are tried without, at the end
MARGIN = 0.8
"""Of the error that may be left: what is weighed is first order, and measured on few samples."""
_KNOWN = 1 / 16
"""Of the error that may be left: groups that make less are not parted."""
_EXPLAINED = 1 / 4
"""Of the error measured, what weighing must find for its answer to be taken."""
_CALL = 10_000.0
"""Passes, 2 µs: what any operator costs beside its work."""


def nearer(made: Quantization, truth: Truth, problem: Fault, why: str) -> Quantization | None:
    """The quantization with so few nodes left float that it is near enough; None where none are found.

    Args:
        made: The quantization.
        truth: What it is held against.
        problem: That it is too far from float.
        why: The reason that is given for each node.
    """
    first, steps, now = made, list[frozenset[str]](), problem
    for _ in range(ROUNDS):
        found = _steps(made, truth, now)
        if not found:
            return None
        steps += found
        made = _leaving(first, steps, why)
        still = fault(made, truth)
        if still is None:
            return _with_fewer(first, made, steps, truth, why)
        now = still
    return None


def toll(made: Quantization) -> Toll:
    """What it costs to leave more nodes float."""
    ground, row = made.ground, target(made.plan.target)
    graph = ground.prepared.graph
    fate, _ = fates(graph, ground.calibration.tensors, row, made.recipe.floats)
    specs = {name: integer.spec for name, integer in fate.integers.items()}
    return Toll(graph, specs, fate.fused, row)


def _steps(made: Quantization, truth: Truth, problem: Fault) -> list[frozenset[str]]:
    """The nodes to leave float as well; none where rounding does not explain how far the outputs are from float."""
    if problem.shares is None:
        return []
    far, every = problem.shares > problem.most, max(1, len(truth.samples) // SAMPLES)
    try:
        probe = apart(made, own_outputs=True)
        if not probe.sources:
            return []
        enough = np.where(far, _KNOWN * problem.most, np.inf)
        shares, together = weighed(
            probe, truth.samples[::every], enough, threads=truth.loaded.threads
        )
    except (ModelError, DataError):  # taken apart the model may be too large, or not run
        return []
    total = shares.sum(axis=1)
    if (together[far] < _EXPLAINED * problem.shares[far]).any() or not total[far].all():
        return []
    shares *= (problem.shares / np.where(total > 0, total, 1.0))[:, None]
    needs = np.where(far, problem.shares - MARGIN * problem.most, 0.0)
    slower = toll(made)
    return covering(
        probe.sources,
        shares,
        needs,
        lambda more, floats: max(0.0, slower(more, floats)) + _CALL * len(more),
    )


def _leaving(first: Quantization, steps: Sequence[frozenset[str]], why: str) -> Quantization:
    floats = dict.fromkeys(sorted(frozenset[str]().union(*steps)), why)
    return attempt(first.ground, first.recipe, floats=floats)


def _with_fewer(
    first: Quantization,
    made: Quantization,
    steps: Sequence[frozenset[str]],
    truth: Truth,
    why: str,
) -> Quantization:
    """The quantization without those of its steps that are not needed, the first few that cost most being tried."""
    slower = toll(first)
    for step in sorted(steps, key=slower, reverse=True)[: FEWER if len(steps) > 1 else 0]:
        fewer = [other for other in steps if other is not step]
        without = _leaving(first, fewer, why)
        if fewer and fault(without, truth) is None:
            made, steps = without, fewer
    return made
