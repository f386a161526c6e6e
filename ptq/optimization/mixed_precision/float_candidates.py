"""Which nodes are best left float, and in which order, when only so many may be, or as few as will do?"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.rewrite.instrument.error_sources import ErrorSource

CostFunction = Callable[[frozenset[str], frozenset[str]], float]
"""What it costs to leave the first nodes float where the second are already; above 0."""
IsAllowed = Callable[[frozenset[str]], bool]
"""Whether these nodes may be float together."""


@dataclass(frozen=True)
class FloatCandidate:
    """Nodes that are left float together.

    Attributes:
        nodes: All of them.
        share: The energy of the output's error that vanishes with them, over the output's own; estimated.
        source: The source that costs the most of those that vanish.
    """

    nodes: frozenset[str]
    error_share: float
    source: ErrorSource

    @property
    def main_node(self) -> str:
        """The node that the move is about."""
        return self.source.node or min(self.nodes)


class RemovableSources:
    """Which sources vanish where some nodes are float."""

    def __init__(self, sources: Sequence[ErrorSource], shares: NDArray[np.float64]) -> None:
        self._shares = shares
        self._sources = sources
        self.candidates = list(dict.fromkeys(source.float_nodes_needed for source in sources))
        self._touched: dict[str, list[int]] = {}
        for index, source in enumerate(sources):
            for node in source.float_nodes_needed:
                self._touched.setdefault(node, []).append(index)

    def removed_by(self, nodes: frozenset[str], floats: frozenset[str] = frozenset()) -> list[int]:
        """The sources that vanish more where ``nodes`` join ``floats``."""
        together, new = floats | nodes, nodes - floats
        touched = {index for node in new for index in self._touched.get(node, ())}
        return [
            index
            for index in sorted(touched)
            if self._sources[index].float_nodes_needed <= together
        ]

    def gain_of(self, nodes: frozenset[str], floats: frozenset[str]) -> tuple[float, int | None]:
        """How much vanishes more where ``nodes`` join ``floats``, and the greatest of its sources."""
        gone = self.removed_by(nodes, floats)
        if not gone:
            return 0.0, None
        greatest = max(gone, key=lambda index: (self._shares[index], -index))
        return float(sum(self._shares[index] for index in gone)), greatest


def rank_candidates(
    sources: Sequence[ErrorSource], shares: NDArray[np.float64]
) -> list[FloatCandidate]:
    """What leaving each of the sources' nodes float would win by itself, most first, no set of nodes twice."""
    vanishing, none = RemovableSources(sources, shares), frozenset[str]()
    found: dict[frozenset[str], FloatCandidate] = {}
    for source in sources:
        share, greatest = vanishing.gain_of(source.float_nodes_needed, none)
        if greatest is not None:
            found[source.float_nodes_needed] = FloatCandidate(
                source.float_nodes_needed, share, sources[greatest]
            )
    return sorted(found.values(), key=lambda move: (-move.error_share, sorted(move.nodes)))


def greedy_candidates(
    sources: Sequence[ErrorSource],
    shares: NDArray[np.float64],
    toll: CostFunction,
    allowed: IsAllowed,
) -> Iterator[FloatCandidate]:
    """Moves one after another, each the one that wins most for what it costs, while there are any allowed.

    Args:
        sources: Of error.
        shares: By source, the energy of the error that it makes.
        toll: What it costs.
        allowed: Whether so many nodes may be float.
    """
    vanishing, floats = RemovableSources(sources, shares), frozenset[str]()

    def cost(more: frozenset[str], floats: frozenset[str]) -> float:
        return toll(more, floats) if allowed(floats | more) else math.inf

    def wins(won: NDArray[np.float64]) -> float:
        return float(won[0])

    while (
        best := _best_candidate(vanishing, shares[None], floats, wins, cost, sys.float_info.max)
    ) is not None:
        share, greatest = vanishing.gain_of(best[0], floats)
        assert greatest is not None
        floats |= best[0]
        yield FloatCandidate(best[0], share, sources[greatest])


_TOLERANCE = 1e-9  # what is left of sums when all has been subtracted


def cheapest_cover(
    sources: Sequence[ErrorSource],
    shares: NDArray[np.float64],
    needs: NDArray[np.float64],
    toll: CostFunction,
) -> list[frozenset[str]]:
    """Nodes to leave float so that enough of each output's error vanishes, for as little time as may be.

    Each step takes the nodes that win most of what is still needed for the time that they cost; at last every step
    is taken back without which there is enough.

    Args:
        sources: Of error.
        shares: By output and source, the energy of the error that it makes.
        needs: By output, how much has to vanish; 0 where nothing has to.
        toll: What it costs.

    Returns:
        The steps; fewer than are needed where all of them together win too little.
    """
    vanishing, left = RemovableSources(sources, shares[0]), needs
    steps, floats = list[frozenset[str]](), frozenset[str]()

    def wins(won: NDArray[np.float64]) -> float:
        return float((np.minimum(won, left)[left > 0] / needs[left > 0]).sum())

    while (left > 0).any():
        best = _best_candidate(vanishing, shares, floats, wins, toll, math.inf)
        if best is None:
            break
        steps, floats = [*steps, best[0]], floats | best[0]
        left = np.maximum(left - best[1], 0)
        left[left < _TOLERANCE * needs] = 0
    for step in reversed(steps[:-1]):
        rest = frozenset[str]().union(*(other for other in steps if other is not step))
        if (shares[:, vanishing.removed_by(rest)].sum(axis=1) >= (1 - _TOLERANCE) * needs).all():
            steps = [other for other in steps if other is not step]
    return steps


def cheap_extras(
    sources: Sequence[ErrorSource],
    shares: NDArray[np.float64],
    floats: frozenset[str],
    toll: CostFunction,
    *,
    least: float,
    most: float,
) -> frozenset[str]:
    """Nodes to leave float beside those that are needed, as they win much and cost next to nothing.

    Args:
        sources: As for `covering`.
        shares: As for `covering`.
        floats: The nodes that are needed.
        toll: What it costs.
        least: What each step has to win, of the error of some output that is left.
        most: What all may cost.
    """
    vanishing, before = RemovableSources(sources, shares[0]), floats
    kept = [k for k, source in enumerate(sources) if not source.float_nodes_needed <= floats]
    left: NDArray[np.float64] = shares[:, kept].sum(axis=1)

    def wins(won: NDArray[np.float64]) -> float:
        share = float((won[left > 0] / left[left > 0]).max(initial=0.0))
        return share if share >= least else 0.0

    while (best := _best_candidate(vanishing, shares, floats, wins, toll, most)) is not None:
        most -= toll(best[0], floats)
        floats, left = floats | best[0], np.maximum(left - best[1], 0)
        left[left < _TOLERANCE * shares.sum(axis=1)] = 0
    return floats - before


def _best_candidate(
    vanishing: RemovableSources,
    shares: NDArray[np.float64],
    floats: frozenset[str],
    wins: Callable[[NDArray[np.float64]], float],
    toll: CostFunction,
    most: float,
) -> tuple[frozenset[str], NDArray[np.float64]] | None:
    """The nodes that win most for what they cost, and by output the energy that vanishes with them."""
    best: tuple[float, frozenset[str], NDArray[np.float64]] | None = None
    for nodes in vanishing.candidates:
        new, won = nodes - floats, shares[:, vanishing.removed_by(nodes, floats)].sum(axis=1)
        if (win := wins(won)) <= 0:
            continue
        cost = toll(new, floats)
        if cost <= most and (best is None or win / cost > best[0]):
            best = win / cost, new, won
    return None if best is None else best[1:]


def count_fused_as_one(nodes: frozenset[str], fused: Mapping[str, frozenset[str]]) -> int:
    """How many nodes, an activation and what it is fused into being one."""
    return len({fused.get(node, frozenset([node])) for node in nodes})
