"""A graph whose nodes are opened one at a time: its picture, and what is said of each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ptq.page.histogram import Histogram
from ptq.page.layout import Layout


@dataclass(frozen=True)
class TensorView:
    """A tensor that a node reads or writes.

    Attributes:
        name: Its name.
        role: ``reads``, ``writes`` or ``weight``.
        facts: What is said of it.
        links: Names and addresses of the nodes at its other end.
        histogram: Its values; None if they are unknown, or shown elsewhere.
    """

    name: str
    role: str
    facts: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    histogram: Histogram | None = None


@dataclass(frozen=True)
class NodeView:
    """A node.

    Attributes:
        name: Its name.
        anchor: Its identifier on the page.
        op: Its operator.
        precision: ``int8``, ``folded``, ``clamp`` or ``float``: class of the style sheet.
        precision_text: The same in words.
        error: Class of the style sheet for its error.
        figure: Its error in few characters.
        why: The reasons, a line each.
        tensors: What it reads and writes.
    """

    name: str
    anchor: str
    op: str
    precision: str
    precision_text: str
    error: str
    figure: str
    why: tuple[str, ...]
    tensors: tuple[TensorView, ...]


@dataclass(frozen=True)
class Network:
    """A graph.

    Attributes:
        nodes: Its nodes, in order.
        layout: Where they are drawn; None if the package for it is not installed.
        legends: For each way of colouring: its name, and classes of the style sheet with their meanings.
        opened: Identifier of the node that is open at first; empty for none.
    """

    kind: ClassVar[str] = "network"
    nodes: tuple[NodeView, ...]
    layout: Layout | None
    legends: Sequence[tuple[str, str, tuple[tuple[str, str], ...]]]
    opened: str = ""
