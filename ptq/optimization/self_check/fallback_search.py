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

MAX_ROUNDS = 4
REMOVALS_TRIED = 3  # steps that are tried without, at the end
ERROR_MARGIN = 0.8
"""Of the error that may be left: what is weighed is first order, and measured on few samples."""
LARGE_SHARE = 0.1
"""Of the error that is left in some output: what wins it is left float too where that costs next to nothing."""
NEGLIGIBLE_COST = 0.01
"""Of the time of the whole model in float."""
_MIN_SHARE = 1 / 16
"""Of the error that may be left: groups that make less are not parted."""
_MIN_EXPLAINED = 1 / 4
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
    search, steps, now = _FallbackSearch(made, truth, why), list[frozenset[str]](), problem
    for _ in range(MAX_ROUNDS):
        found, more = search.find_nodes(made, now)
        if not found:
            return None
        steps += found
        made = search.with_float_nodes(steps)
        still = check(made, truth)
        if still is None:
            return search.prune(made, steps, more)
        now = still
    return None


@dataclass(frozen=True, eq=False)
class _FallbackSearch:
    first: QuantizedModel
    reference: ReferenceOutputs
    reason: str

    def with_float_nodes(self, steps: Iterable[frozenset[str]]) -> QuantizedModel:
        """The first quantization with the nodes of all steps left float."""
        floats = dict.fromkeys(sorted(frozenset[str]().union(*steps)), self.reason)
        return quantize_with(self.first.calibrated_model, self.first.recipe, floats=floats)

    def find_nodes(
        self, made: QuantizedModel, problem: CheckFailure
    ) -> tuple[list[frozenset[str]], frozenset[str]]:
        """Nodes to leave float as well, and such as win much for nothing.

        None where rounding does not explain how far the outputs are from float.
        """
        nothing = list[frozenset[str]](), frozenset[str]()
        if problem.error_shares is None:
            return nothing
        far, every = (
            problem.error_shares > problem.max_share,
            max(1, len(self.reference.samples) // SAMPLES),
        )
        try:
            probe = error_sources_of(
                made,
                with_extra_outputs(made.calibrated_model.prepared.graph, problem.boundary_tensors),
            )
            if not probe.sources:
                return nothing
            outputs = [name_of(value) for value in probe.injected.outputs]
            names = problem.boundary_tensors or outputs
            enough = np.full(len(outputs), np.inf)
            rows = [outputs.index(name) for name in names]
            enough[rows] = np.where(far, _MIN_SHARE * problem.max_share, np.inf)
            some = self.reference.samples[::every]
            found = attribute_error(
                probe, some, enough, run=self.reference.sessions.run, advance=self.reference.advance
            )
            shares, together = found.error_shares[rows], found.joint_shares[rows]
        except (ModelError, DataError):  # taken apart the model may be too large, or not run
            return nothing
        shares, total = shares[far], shares[far].sum(axis=1)
        if (together[far] < _MIN_EXPLAINED * problem.error_shares[far]).any() or not total.all():
            return nothing
        shares = shares * (problem.error_shares[far] / total)[:, None]
        slower = float_time_model(made)
        cost, most = time_cost(slower), NEGLIGIBLE_COST * slower.all_float_time
        steps = cheapest_cover(
            probe.sources,
            shares,
            problem.error_shares[far] - ERROR_MARGIN * problem.max_share,
            cost,
        )
        floats = frozenset[str]().union(*steps)
        return steps, cheap_extras(
            probe.sources, shares, floats, cost, least=LARGE_SHARE, most=most
        )

    def prune(
        self, made: QuantizedModel, steps: Sequence[frozenset[str]], more: frozenset[str]
    ) -> QuantizedModel:
        """The quantization without the steps that are not needed, and with what wins much for nothing.

        The first few steps that cost most are tried.
        """
        slower = float_time_model(self.first)
        for step in sorted(steps, key=slower, reverse=True)[
            : REMOVALS_TRIED if len(steps) > 1 else 0
        ]:
            fewer = [other for other in steps if other is not step]
            without = self.with_float_nodes(fewer)
            if check(without, self.reference) is None:
                made, steps = without, fewer
        better = self.with_float_nodes([*steps, more])
        return better if more and check(better, self.reference) is None else made
