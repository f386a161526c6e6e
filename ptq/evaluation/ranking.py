"""Nodes ranked by the accuracy regained when each stays in float: the result of ``ptq.sensitivity``."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.data.labelling import Labelling
from ptq.data.preprocessing.recorded_preprocess import AppliedPreprocess
from ptq.evaluation.diagnosis import Diagnosis, list_warnings
from ptq.evaluation.drop import Drop, TaskChoice


@dataclass(frozen=True)
class NodeCost:
    """Gain from keeping one node in float.

    Attributes:
        node: Name of the node.
        op: Its operator.
        along: Other nodes that must stay in float with it; without them the rounding only happens elsewhere.
        rounds: What it rounds with the largest error: ``weights``, or the name of a tensor.
        share: Estimated share of the outputs' error that vanishes, 0 to 1.
        alone: Whether its quantizer was measured alone; otherwise the estimate is an equal share of a group's error.
        won_db: Estimated SQNR gain in dB.
        measured_db: SQNR gain in dB, measured on a model with these nodes in float; None if not measured.
        measured_points: Measured gain in points of the metric; None if not measured.
        together_db: Measured SQNR gain in dB if the nodes of all entries above stay in float too; None if not
            measured. An error that is rounded twice vanishes only if both nodes stay in float.
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
    """Nodes ranked by the gain from keeping each in float.

    Attributes:
        model: Path or name.
        target: Name of the target.
        samples: Number of samples for measurements. No range is chosen on them, unless there are too few samples.
        sqnr_db: SQNR of the quantized model on these samples, in dB.
        drop: Drop of the quantized model on these samples.
        estimated_on: Number of these samples used for estimates.
        runs: Number of runs of the float model on each of those, about a hundred at most.
        measurements: Number of quantized models that ran on all samples.
        sources: Number of quantizers: a direct measurement of each alone would need that many runs.
        nodes: Largest estimated gain first.
        applied_preprocess: How the calibration samples became arrays.
        labels: Where the labels of the measured samples come from; None if there are none.
        suspects: Known causes of bad figures that were found.
        task: What the drop is measured by, and why; None with a metric of the user.
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
    applied_preprocess: AppliedPreprocess | None = None
    labels: Labelling | None = None
    suspects: tuple[Diagnosis, ...] = ()
    task: TaskChoice | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before any figure, the most serious first."""
        return list_warnings(self.applied_preprocess, self.suspects)
