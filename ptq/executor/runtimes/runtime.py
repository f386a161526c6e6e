"""A model that a runtime has loaded: its outputs for a feed, and where its nodes run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from ptq.core.wording import plural

CPU = "CPU"
"""Device of the nodes that an execution provider does not take."""
_MOST_NAMED = 3


@dataclass(frozen=True)
class Placement:
    """Where one node of a model runs.

    Attributes:
        node: Name of the node.
        op: Its operator.
        device: Where it runs, such as ``HTP``, ``CPU`` or ``integers``.
        intended: Whether this is where the target wants it.
        reason: Why it does not run where the target wants it; empty if it does, or if the runtime does not tell.
    """

    node: str
    op: str
    device: str
    intended: bool
    reason: str = ""


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
    others: dict[tuple[str, str, str], int] = {}
    for node in placed:
        if not node.intended:
            key = node.op, node.device, node.reason
            others[key] = others.get(key, 0) + 1
    text = (
        f"{len(good)} of {len(placed)} nodes on {where}" if good else "no node where it should be"
    )
    rest = "; ".join(
        f"{count} {op} on {device}" + (f": {reason}" if reason else "")
        for (op, device, reason), count in others.items()
    )
    return f"{text}; {rest}" if rest else text


def describe_fallback(placed: Sequence[Placement]) -> str:
    """The nodes that an execution provider leaves to the CPU, and what that costs; empty without any."""
    away = [node for node in placed if node.device == CPU and not node.intended]
    if not away:
        return ""
    counts = Counter(node.op for node in away)
    operators = ", ".join(f"{count} {op}" for op, count in counts.most_common())
    named = ", ".join(node.node or node.op for node in away[:_MOST_NAMED])
    more = ", …" if len(away) > _MOST_NAMED else ""
    verb = "falls" if len(away) == 1 else "fall"
    return (
        f"{plural(len(away), 'node')} {verb} back to the CPU ({operators}: {named}{more}): tensors are copied at "
        "each border and fusions are lost, which costs speed; use operators that the provider takes, or keep their "
        "neighbours in float too (option skip)"
    )


def describe_placement(placed: Sequence[Placement]) -> tuple[str, ...]:
    """Where nodes run, and what falls back; empty if the runtime does not tell."""
    return tuple(filter(None, (summarize_placement(placed), describe_fallback(placed))))
