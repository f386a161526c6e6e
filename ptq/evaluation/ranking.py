"""Nodes by what leaving each float would win: the result of `ptq sensitivity`."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.evaluation.drop import Drop


@dataclass(frozen=True)
class NodeCost:
    """What leaving a node float would win.

    Attributes:
        node: Its name.
        op: Its operator.
        along: The nodes that have to stay float with it, or the rounding is only moved.
        rounds: What it rounds most dearly: ``weights``, or the name of a tensor.
        share: The share of the outputs' error that vanishes, 0 to 1; estimated.
        alone: Whether what it rounds was run alone; without, the estimate is an equal part of a group's.
        won_db: What that is in decibels of signal over error.
        measured_db: The same, measured on a model with these nodes float; None where it was not.
        measured_points: Points of the metric won by it, likewise.
        together_db: Decibels won with the nodes of all entries before it float too, likewise; errors that are
            one and the same, rounded twice, vanish only together.
    """

    node: str
    op: str
    along: tuple[str, ...]
    rounds: str
    share: float
    alone: bool
    won_db: float
    measured_db: float | None = None
    measured_points: float | None = None
    together_db: float | None = None


@dataclass(frozen=True)
class Ranking:
    """Nodes by what leaving them float would win.

    Attributes:
        model: Path or name.
        target: Name of the target.
        samples: How many everything is measured on; no range is chosen on them, unless there are too few.
        sqnr_db: Signal over error of the quantized model there.
        drop: What it loses there.
        estimated_on: How many of them the estimates are made on.
        runs: How often the float model was run on each of those, at most a hundred or so times.
        measurements: How many quantized models were run on all.
        sources: Places where something is rounded: so many runs would measure each of them.
        nodes: Most won first, as estimated.
    """

    model: str
    target: str
    samples: int
    sqnr_db: float
    drop: Drop
    estimated_on: int
    runs: int
    measurements: int
    sources: int
    nodes: tuple[NodeCost, ...]
