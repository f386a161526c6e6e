"""Selection of nodes to keep in float: a ranking, a greedy order under a limit, and a cheapest cover of needs.

Rounding error sources vanish when certain nodes run in float. Each function chooses sets of nodes by the error
energy that vanishes with them, estimated to first order, and by what they cost.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.optimization.mixed_precision.attribution.error_attribution import list_remaining
from ptq.rewrite.instrument.error_sources import ErrorSource

CostFunction = Callable[[frozenset[str], frozenset[str]], float]
"""The cost, above 0, of the first nodes in float in addition to the second."""
IsAllowed = Callable[[frozenset[str]], bool]
"""Whether these nodes may all be float."""
_TOLERANCE = 1e-9
"""Tolerance for sums of shares in floating point."""


@dataclass(frozen=True)
class FloatCandidate:
    """Nodes to keep in float together.

    Attributes:
        nodes: The names of the nodes.
        error_share: The estimated error energy that vanishes with them, as a share of the output's energy.
        source: The largest of the error sources that vanish.
    """

    nodes: frozenset[str]
    error_share: float
    source: ErrorSource

    @property
    def main_node(self) -> str:
        """The node that rounds the largest error source."""
        return self.source.node or min(self.nodes)


class RemovableSources:
    """Finds the error sources that vanish when some nodes are float.

    Attributes:
        candidates: The sets of nodes that the sources need to be float, without duplicates.
    """

    def __init__(self, sources: Sequence[ErrorSource], shares: NDArray[np.float64]) -> None:
        """Index the sources by node; ``shares`` holds the error energy of each source."""
        self._shares = shares
        self._sources = sources
        self.candidates = list(dict.fromkeys(source.float_nodes_needed for source in sources))
        self._touched: dict[str, list[int]] = {}
        for index, source in enumerate(sources):
            for node in source.float_nodes_needed:
                self._touched.setdefault(node, []).append(index)

    def removed_by(self, nodes: frozenset[str], floats: frozenset[str] = frozenset()) -> list[int]:
        """The indices of the sources that vanish when ``nodes`` are float in addition to ``floats``."""
        all_floats, new = floats | nodes, nodes - floats
        touched = {index for node in new for index in self._touched.get(node, ())}
        return [
            index
            for index in sorted(touched)
            if self._sources[index].float_nodes_needed <= all_floats
        ]

    def gain_of(self, nodes: frozenset[str], floats: frozenset[str]) -> tuple[float, int | None]:
        """The energy that vanishes when ``nodes`` are float in addition to ``floats``, and its largest source."""
        removed = self.removed_by(nodes, floats)
        if not removed:
            return 0.0, None
        greatest = max(removed, key=lambda index: (self._shares[index], -index))
        return float(sum(self._shares[index] for index in removed)), greatest


def rank_candidates(
    sources: Sequence[ErrorSource], shares: NDArray[np.float64]
) -> list[FloatCandidate]:
    """Each source's nodes as a candidate of its own, by gain, largest first, without duplicates."""
    removable, none = RemovableSources(sources, shares), frozenset[str]()
    found: dict[frozenset[str], FloatCandidate] = {}
    for source in sources:
        share, greatest = removable.gain_of(source.float_nodes_needed, none)
        if greatest is not None:
            found[source.float_nodes_needed] = FloatCandidate(
                source.float_nodes_needed, share, sources[greatest]
            )
    return sorted(found.values(), key=lambda found: (-found.error_share, sorted(found.nodes)))


def list_greedy_candidates(
    sources: Sequence[ErrorSource],
    shares: NDArray[np.float64],
    cost: CostFunction,
    allowed: IsAllowed,
) -> Iterator[FloatCandidate]:
    """Candidates one after another, each with the highest gain for its cost, while one is allowed.

    Args:
        sources: The error sources.
        shares: The error energy of each source.
        cost: The cost of float nodes.
        allowed: Whether a set of nodes may be float.
    """
    removable, floats = RemovableSources(sources, shares), frozenset[str]()

    def limited_cost(more: frozenset[str], floats: frozenset[str]) -> float:
        return cost(more, floats) if allowed(floats | more) else math.inf

    def gain(removed: NDArray[np.float64]) -> float:
        return float(removed[0])

    limit = sys.float_info.max
    while (
        best := _find_best_candidate(removable, shares[None], floats, gain, limited_cost, limit)
    ) is not None:
        share, greatest = removable.gain_of(best[0], floats)
        assert greatest is not None
        floats |= best[0]
        yield FloatCandidate(best[0], share, sources[greatest])


def find_cheapest_cover(
    sources: Sequence[ErrorSource],
    shares: NDArray[np.float64],
    needs: NDArray[np.float64],
    cost: CostFunction,
) -> list[frozenset[str]]:
    """Sets of nodes to keep in float so that enough of each output's error vanishes, at low cost.

    Greedy: each round takes the set that removes most of the remaining needs for its cost. Then each set that is
    not needed is dropped, the last one first.

    Args:
        sources: The error sources.
        shares: The error energy of each source in each output, shape (outputs, sources).
        needs: The energy that has to vanish from each output; 0 for none.
        cost: The cost of float nodes.

    Returns:
        The sets; too few of them if all sources together do not meet the needs.
    """
    removable, left = RemovableSources(sources, shares[0]), needs
    chosen, floats = list[frozenset[str]](), frozenset[str]()

    def gain(removed: NDArray[np.float64]) -> float:
        return float((np.minimum(removed, left)[left > 0] / needs[left > 0]).sum())

    while (left > 0).any():
        best = _find_best_candidate(removable, shares, floats, gain, cost, math.inf)
        if best is None:
            break
        chosen, floats = [*chosen, best[0]], floats | best[0]
        left = np.maximum(left - best[1], 0)
        left[left < _TOLERANCE * needs] = 0
    for nodes in reversed(chosen[:-1]):
        rest = frozenset[str]().union(*(other for other in chosen if other is not nodes))
        if (shares[:, removable.removed_by(rest)].sum(axis=1) >= (1 - _TOLERANCE) * needs).all():
            chosen = [other for other in chosen if other is not nodes]
    return chosen


def find_cheap_extras(
    sources: Sequence[ErrorSource],
    shares: NDArray[np.float64],
    floats: frozenset[str],
    cost: CostFunction,
    *,
    least: float,
    most: float,
) -> frozenset[str]:
    """More nodes to keep in float, because they gain much and cost next to nothing.

    Args:
        sources: The error sources.
        shares: The error energy of each source in each output, shape (outputs, sources).
        floats: The nodes that are float already.
        cost: The cost of float nodes.
        least: The share of the remaining error of some output that each set has to remove.
        most: The highest cost of all sets together.
    """
    removable, before = RemovableSources(sources, shares[0]), floats
    kept = list_remaining(sources, floats)
    left: NDArray[np.float64] = shares[:, kept].sum(axis=1)

    def gain(removed: NDArray[np.float64]) -> float:
        share = float((removed[left > 0] / left[left > 0]).max(initial=0.0))
        return share if share >= least else 0.0

    while (best := _find_best_candidate(removable, shares, floats, gain, cost, most)) is not None:
        most -= cost(best[0], floats)
        floats, left = floats | best[0], np.maximum(left - best[1], 0)
        left[left < _TOLERANCE * shares.sum(axis=1)] = 0
    return floats - before


def _find_best_candidate(
    removable: RemovableSources,
    shares: NDArray[np.float64],
    floats: frozenset[str],
    gain: Callable[[NDArray[np.float64]], float],
    cost: CostFunction,
    most: float,
) -> tuple[frozenset[str], NDArray[np.float64]] | None:
    """The nodes with the highest gain for their cost, and the energy that vanishes from each output with them."""
    best: tuple[float, frozenset[str], NDArray[np.float64]] | None = None
    for nodes in removable.candidates:
        if not (new := nodes - floats):
            continue
        removed = shares[:, removable.removed_by(nodes, floats)].sum(axis=1)
        if (gained := gain(removed)) <= 0:
            continue
        price = cost(new, floats)
        if price <= most and (best is None or gained / price > best[0]):
            best = gained / price, new, removed
    return None if best is None else best[1:]


def count_fused_as_one(nodes: frozenset[str], fused: Mapping[str, frozenset[str]]) -> int:
    """The number of nodes; an activation and the node that it is fused into count as one."""
    return len({fused.get(node, frozenset([node])) for node in nodes})
