"""The trade of speed against error: points of a Pareto curve, each with the nodes that it leaves float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptq.evaluation.diagnosis import Diagnosis


@dataclass(frozen=True)
class FrontierPoint:
    """One model of the curve.

    Attributes:
        number: Number of the point, 0 for all int8.
        floats: Nodes that it leaves float for their error, with the reason.
        speed: Estimated speed relative to float.
        sqnr_db: Estimated SQNR of the outputs, in dB.
        measured_speed: Measured speed relative to float: the median; None if not measured.
        measured_sqnr_db: Measured SQNR in dB; None if not measured.
        chosen: Whether the rule of ``prefer`` takes this point.
    """

    number: int
    floats: Mapping[str, str]
    speed: float
    sqnr_db: float
    measured_speed: float | None = None
    measured_sqnr_db: float | None = None
    chosen: bool = False


@dataclass(frozen=True)
class EstimatedFrontier:
    """The curve that the default rule of a quantization estimates; no point of it is measured.

    Attributes:
        prefer: The preference that chose a point.
        points: All int8, then the others in the order of their estimated time, with less error each. The chosen one
            is there in any case.
        error_shares: Share of the output's error that the roundings of each node cause, by node, 0 to 1; the largest
            first. Roundings that were not measured alone have an equal share of their group's error.
        samples: Number of samples.
        runs: Number of runs of the float model on each of those.
    """

    prefer: str
    points: tuple[FrontierPoint, ...]
    error_shares: Mapping[str, float]
    samples: int
    runs: int


@dataclass(frozen=True)
class FrontierReport:
    """A Pareto curve of speed and error.

    Attributes:
        model: Path or name.
        target: Name of the target.
        prefer: The preference that chose a point.
        points: All int8, then the others in the order of their time in the table, with less injected error each.
            Speed and SQNR are drawn through measurements, which may order two points otherwise.
        samples: Number of samples for measurements.
        estimated_on: Number of these samples used for estimates.
        runs: Number of runs of the float model on each of those.
        sources: Number of error sources.
        cost_table: Name of the table of measured times.
        cost_table_digest: Digest of that table.
        suspects: Known causes of bad figures that were found.
    """

    model: str
    target: str
    prefer: str
    points: tuple[FrontierPoint, ...]
    samples: int
    estimated_on: int
    runs: int
    sources: int
    cost_table: str
    cost_table_digest: str
    suspects: tuple[Diagnosis, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before any figure."""
        return tuple(map(str, self.suspects))
