"""Which nodes are best left float where a quantized model is too far from float?

What each rounding adds to each output is weighed on the float model, first in groups and then apart, so that a
network of hundreds of nodes takes fewer runs than it has nodes. The nodes follow that win most of what is needed for
the time that they cost in float; the model that results is measured, and what is still too far is weighed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import DataError, ModelError
from ptq.model.node import name_of
from ptq.optimization.mixed_precision.error_attribution import SAMPLES, attribute_error
from ptq.optimization.mixed_precision.float_candidates import cheap_extras, cheapest_cover
from ptq.optimization.mixed_precision.float_cost import (
    error_sources_of,
    float_time_model,
    time_cost,
)
from ptq.optimization.self_check.boundary_error import with_extra_outputs
from ptq.optimization.self_check.checks import ReferenceOutputs, check, quantize_with
from ptq.optimization.self_check.output_distance import CheckFailure
from ptq.solver.quantizer import QuantizedModel

ROUNDS = 4
FEWER = 3  # steps that are tried without, at the end
MARGIN = 0.8
"""Of the error that may be left: what is weighed is first order, and measured on few samples."""
MUCH = 0.1
"""Of the error that is left in some output: what wins it is left float too where that costs next to nothing."""
NEXT_TO_NOTHING = 0.01
"""Of the time of the whole model in float."""
_KNOWN = 1 / 16
"""Of the error that may be left: groups that make less are not parted."""
_EXPLAINED = 1 / 4
"""Of the error measured, what weighing must find for its answer to be taken."""


def find_float_fallback(
    made: QuantizedModel, truth: ReferenceOutputs, problem: CheckFailure, why: str
) -> QuantizedModel | None:
    """The quantization with so few nodes left float that it is near enough; None where none are found.

    Args:
        made: The quantization.
        truth: What it is held against.
        problem: That it is too far from float.
        why: The reason that is given for each node.
    """
    search, steps, now = _Search(made, truth, why), list[frozenset[str]](), problem
    for _ in range(ROUNDS):
        found, more = search.steps(made, now)
        if not found:
            return None
        steps += found
        made = search.leaving(steps)
        still = check(made, truth)
        if still is None:
            return search.finished(made, steps, more)
        now = still
    return None


@dataclass(frozen=True, eq=False)
class _Search:
    first: QuantizedModel
    truth: ReferenceOutputs
    why: str

    def leaving(self, steps: Iterable[frozenset[str]]) -> QuantizedModel:
        """The first quantization with the nodes of all steps left float."""
        floats = dict.fromkeys(sorted(frozenset[str]().union(*steps)), self.why)
        return quantize_with(self.first.ground, self.first.recipe, floats=floats)

    def steps(
        self, made: QuantizedModel, problem: CheckFailure
    ) -> tuple[list[frozenset[str]], frozenset[str]]:
        """Nodes to leave float as well, and such as win much for nothing.

        None where rounding does not explain how far the outputs are from float.
        """
        nothing = list[frozenset[str]](), frozenset[str]()
        if problem.shares is None:
            return nothing
        far, every = problem.shares > problem.most, max(1, len(self.truth.samples) // SAMPLES)
        try:
            probe = error_sources_of(
                made, with_extra_outputs(made.ground.prepared.graph, problem.edges)
            )
            if not probe.sources:
                return nothing
            outputs = [name_of(value) for value in probe.injected.outputs]
            names = problem.edges or outputs
            enough = np.full(len(outputs), np.inf)
            rows = [outputs.index(name) for name in names]
            enough[rows] = np.where(far, _KNOWN * problem.most, np.inf)
            some, threads = self.truth.samples[::every], self.truth.loaded.threads
            found = attribute_error(
                probe, some, enough, threads=threads, advance=self.truth.advance
            )
            shares, together = found.shares[rows], found.together[rows]
        except (ModelError, DataError):  # taken apart the model may be too large, or not run
            return nothing
        shares, total = shares[far], shares[far].sum(axis=1)
        if (together[far] < _EXPLAINED * problem.shares[far]).any() or not total.all():
            return nothing
        shares = shares * (problem.shares[far] / total)[:, None]
        slower = float_time_model(made)
        cost, most = time_cost(slower), NEXT_TO_NOTHING * slower.real
        steps = cheapest_cover(
            probe.sources, shares, problem.shares[far] - MARGIN * problem.most, cost
        )
        floats = frozenset[str]().union(*steps)
        return steps, cheap_extras(probe.sources, shares, floats, cost, least=MUCH, most=most)

    def finished(
        self, made: QuantizedModel, steps: Sequence[frozenset[str]], more: frozenset[str]
    ) -> QuantizedModel:
        """The quantization without the steps that are not needed, and with what wins much for nothing.

        The first few steps that cost most are tried.
        """
        slower = float_time_model(self.first)
        for step in sorted(steps, key=slower, reverse=True)[: FEWER if len(steps) > 1 else 0]:
            fewer = [other for other in steps if other is not step]
            without = self.leaving(fewer)
            if check(without, self.truth) is None:
                made, steps = without, fewer
        better = self.leaving([*steps, more])
        return better if more and check(better, self.truth) is None else made
