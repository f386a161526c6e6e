"""Search for the float nodes that bring a model with too low an SQNR back to the required SQNR.

Error attribution estimates the error that each rounding adds to each output; a network of hundreds of nodes takes
fewer runs than it has nodes. The search then keeps those nodes in float that remove most of the needed error for the
time that they cost. It measures the resulting model, and repeats for outputs that are still too far from float.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import DataError, ModelError
from ptq.model.node import get_name
from ptq.model.session.exposed_session import with_extra_outputs
from ptq.optimization.mixed_precision.attribution.error_attribution import SAMPLES, attribute_error
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.attribution.float_candidates import (
    find_cheap_extras,
    find_cheapest_cover,
)
from ptq.optimization.mixed_precision.attribution.float_cost import (
    build_float_time_model,
    make_time_cost,
)
from ptq.optimization.mixed_precision.attribution.quantized_sources import (
    build_quantized_error_probe,
)
from ptq.optimization.self_check.checks import CheckReference, check
from ptq.optimization.self_check.output_distance import CheckFailure
from ptq.solver.quantizer import QuantizedModel, quantize_with

MAX_ROUNDS = 4
REMOVALS_TRIED = 3
"""Sets of nodes that are removed again on trial, at the end."""
ERROR_MARGIN = 0.8
"""The share of the allowed error to aim at: attribution is first order, and measured on few samples."""
LARGE_SHARE = 0.1
"""A node that removes this share of an output's remaining error stays float too if its cost is negligible."""
NEGLIGIBLE_COST = 0.01
"""A negligible cost, as a share of the time of the whole model in float."""
_MIN_SHARE = 1 / 16
"""The share of the allowed error below which a group of sources is not split."""
_MIN_EXPLAINED = 1 / 4
"""The share of the measured error that attribution must explain for its result to be used."""


def find_float_fallback(
    quantized: QuantizedModel, against: CheckReference, failure: CheckFailure, reason: str
) -> QuantizedModel | None:
    """The model with few nodes in float that passes the check; None if none is found.

    Args:
        quantized: The quantized model.
        against: The float model's outputs.
        failure: The failed check: the SQNR is too low.
        reason: The reason that is given for each float node.
    """
    search, chosen = _FallbackSearch(quantized, against, reason), list[frozenset[str]]()
    for _ in range(MAX_ROUNDS):
        found, extras = search.find_nodes(quantized, failure)
        if not found:
            return None
        chosen += found
        quantized = search.with_float_nodes(chosen)
        remaining = check(quantized, against)
        if remaining is None:
            return search.prune(quantized, chosen, extras)
        failure = remaining
    return None


@dataclass(frozen=True, eq=False)
class _FallbackSearch:
    """Tries float nodes.

    Attributes:
        first: The quantized model before the search.
        against: The float model's outputs.
        reason: The reason that is given for each float node.
    """

    first: QuantizedModel
    against: CheckReference
    reason: str

    def with_float_nodes(self, chosen: Iterable[frozenset[str]]) -> QuantizedModel:
        """The first quantized model with all these nodes in float."""
        floats = dict.fromkeys(sorted(frozenset[str]().union(*chosen)), self.reason)
        return quantize_with(self.first.calibrated_model, self.first.recipe, floats=floats)

    def find_nodes(
        self, quantized: QuantizedModel, failure: CheckFailure
    ) -> tuple[list[frozenset[str]], frozenset[str]]:
        """Sets of nodes to keep in float, and extras that gain much at negligible cost.

        Both are empty if rounding does not explain the error.
        """
        nothing = list[frozenset[str]](), frozenset[str]()
        if failure.error_shares is None:
            return nothing
        against, graph = self.against, quantized.calibrated_model.prepared.graph
        failing = failure.error_shares > failure.max_share
        every = max(1, len(against.reference.samples) // SAMPLES)
        try:
            probe = build_quantized_error_probe(
                quantized, with_extra_outputs(graph, failure.boundary_tensors)
            )
            if not probe.sources:
                return nothing
            outputs = [get_name(value) for value in probe.injected.outputs]
            rows = [outputs.index(name) for name in failure.boundary_tensors or outputs]
            enough = np.full(len(outputs), np.inf)
            enough[rows] = np.where(failing, _MIN_SHARE * failure.max_share, np.inf)
            found = attribute_error(
                ErrorInjector(probe, against.sessions.run),
                against.reference.samples[::every],
                enough,
                advance=against.advance,
            )
        except (ModelError, DataError):  # the probe can be too large, or fail to run
            return nothing
        shares, joint = found.error_shares[rows][failing], found.joint_shares[rows][failing]
        measured, total = failure.error_shares[failing], shares.sum(axis=1)
        if (joint < _MIN_EXPLAINED * measured).any() or not total.all():
            return nothing
        shares = shares * (measured / total)[:, None]
        time_model = build_float_time_model(quantized)
        cost, most = make_time_cost(time_model), NEGLIGIBLE_COST * time_model.all_float_time
        needs = measured - ERROR_MARGIN * failure.max_share
        chosen = find_cheapest_cover(probe.sources, shares, needs, cost)
        floats = frozenset[str]().union(*chosen)
        extras = find_cheap_extras(
            probe.sources, shares, floats, cost, least=LARGE_SHARE, most=most
        )
        return chosen, extras

    def prune(
        self, quantized: QuantizedModel, chosen: Sequence[frozenset[str]], extras: frozenset[str]
    ) -> QuantizedModel:
        """The model without expensive sets that are not needed, and with the extras if it then passes."""
        time_model = build_float_time_model(self.first)
        by_cost = sorted(chosen, key=time_model, reverse=True)
        for nodes in by_cost[: REMOVALS_TRIED if len(chosen) > 1 else 0]:
            fewer = [other for other in chosen if other is not nodes]
            without = self.with_float_nodes(fewer)
            if check(without, self.against) is None:
                quantized, chosen = without, fewer
        better = self.with_float_nodes([*chosen, extras])
        return better if extras and check(better, self.against) is None else quantized
