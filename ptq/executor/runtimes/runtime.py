"""A model that a runtime has loaded: its outputs for a feed, and where its nodes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray


@dataclass(frozen=True)
class Placement:
    """Where one node of a model runs.

    Attributes:
        node: Name of the node.
        op: Its operator.
        device: Where it runs, such as ``HTP``, ``CPU`` or ``integers``.
        intended: Whether this is where the target wants it.
    """

    node: str
    op: str
    device: str
    intended: bool


class RuntimeModel(Protocol):
    """A model that a runtime has loaded.

    Attributes:
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        fixed_batch: Whether it takes the batch of its first feed only.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fixed_batch: bool

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once and return all outputs, or the named ones.

        Raises:
            DataError: The runtime fails on the feed.
        """
        ...

    def placement(self) -> tuple[Placement, ...]:
        """Where each node runs, quantizers left out; empty if the runtime does not tell, or nothing ran yet."""
        ...


def summarize_placement(placed: Sequence[Placement]) -> str:
    """One line: how many nodes run where they should, and the others by operator; empty without nodes."""
    if not placed:
        return ""
    good = [node for node in placed if node.intended]
    where = (good or placed)[0].device
    others: dict[tuple[str, str], int] = {}
    for node in placed:
        if not node.intended:
            others[node.op, node.device] = others.get((node.op, node.device), 0) + 1
    text = (
        f"{len(good)} of {len(placed)} nodes on {where}" if good else "no node where it should be"
    )
    rest = ", ".join(f"{count} {op} on {device}" for (op, device), count in others.items())
    return f"{text}; {rest}" if rest else text
