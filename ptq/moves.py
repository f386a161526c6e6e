"""Which nodes are best left float, and in which order, when only so many may be?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptq.rewrite.probe import Source
from ptq.sensitivity import Costs


@dataclass(frozen=True)
class Move:
    """Nodes that are left float together.

    Attributes:
        nodes: All of them.
        share: The energy of the output's error that vanishes with them, over the output's own; estimated.
        source: The source that costs the most of those that vanish.
    """

    nodes: frozenset[str]
    share: float
    source: Source

    @property
    def leader(self) -> str:
        """The node that the move is about."""
        return self.source.node or min(self.nodes)


class Vanishing:
    """Which sources vanish where some nodes are float."""

    def __init__(self, costs: Costs) -> None:
        self._shares = costs.shares
        self._sources = costs.sources
        self._touched: dict[str, list[int]] = {}
        for index, source in enumerate(costs.sources):
            for node in source.touching:
                self._touched.setdefault(node, []).append(index)

    def beside(self, nodes: frozenset[str], floats: frozenset[str]) -> tuple[float, int | None]:
        """What vanishes more where ``nodes`` join ``floats``, and the greatest of its sources."""
        together, new = floats | nodes, nodes - floats
        touched = {index for node in new for index in self._touched.get(node, ())}
        gone = [index for index in touched if self._sources[index].touching <= together]
        if not gone:
            return 0.0, None
        greatest = max(gone, key=lambda index: (self._shares[index], -index))
        return float(sum(self._shares[index] for index in gone)), greatest


def ranked(costs: Costs) -> list[Move]:
    """What leaving each of the sources' nodes float would win by itself, most first, no set of nodes twice."""
    vanishing, none = Vanishing(costs), frozenset[str]()
    found: dict[frozenset[str], Move] = {}
    for source in costs.sources:
        share, greatest = vanishing.beside(source.touching, none)
        if greatest is not None:
            found[source.touching] = Move(source.touching, share, costs.sources[greatest])
    return sorted(found.values(), key=lambda move: (-move.share, sorted(move.nodes)))


def greedily(costs: Costs, fused: Mapping[str, frozenset[str]], most: int) -> Iterator[Move]:
    """Moves one after another, each the one that wins most for every node more, up to a number of nodes.

    A node and the activation fused into it count as one.
    """
    vanishing, floats = Vanishing(costs), frozenset[str]()
    candidates = list(dict.fromkeys(source.touching for source in costs.sources))
    while True:
        best: tuple[float, Move] | None = None
        for nodes in candidates:
            new = nodes - floats
            if not new or counted(floats | nodes, fused) > most:
                continue
            share, greatest = vanishing.beside(nodes, floats)
            score = share / counted(new, fused)
            if greatest is not None and share > 0 and (best is None or score > best[0]):
                best = score, Move(new, share, costs.sources[greatest])
        if best is None:
            return
        floats |= best[1].nodes
        yield best[1]


def counted(nodes: frozenset[str], fused: Mapping[str, frozenset[str]]) -> int:
    """How many nodes, an activation and what it is fused into being one."""
    return len({fused.get(node, frozenset([node])) for node in nodes})
