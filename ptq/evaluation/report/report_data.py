"""Report of one quantization as data, and as JSON; `ptq.evaluation.exports` has its other formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ptq.core.errors import BudgetError
from ptq.core.json_text import format_json
from ptq.core.preprocess_wording import describe_preprocessing, describe_sample_source
from ptq.core.record import Record
from ptq.core.targets import get_target
from ptq.core.wording import plural
from ptq.data.preprocessing.recorded_preprocess import list_recorded_options
from ptq.evaluation.budget import BudgetSearch
from ptq.evaluation.diagnosis import Diagnosis as Diagnosis
from ptq.evaluation.drop import Budget
from ptq.evaluation.frontier import EstimatedFrontier
from ptq.evaluation.intervals import describe_speed
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.report.litert_result import LitertCheck

ONNX_RUNTIME = "ONNX Runtime"
_ESTIMATED_WITHIN = 1.25
"""The factor between estimated and measured speed from which the table of times is wrong."""


@dataclass(frozen=True)
class TensorRow:
    """Quantization error of one tensor.

    Attributes:
        name: Name of the tensor.
        kind: ``activation`` or ``weight``.
        sqnr_db: SQNR of the tensor alone, in dB; of a weight, that of its integers in the model. Second-order
            rounding lowers it: it makes the error of the layer smaller, not that of the weight.
        rounding: Share of the squared error caused by rounding, 0 to 1; the rest is clipping.
        saturation: Share of values outside the range, 0 to 1.
        lo: Lowest representable value, of the widest channel.
        hi: Highest representable value, of the widest channel.
        why: Reason for its scale.
        node: The node that writes the activation, or reads the weight; empty for an input of the model.
    """

    name: str
    kind: str
    sqnr_db: float
    rounding: float
    saturation: float
    lo: float
    hi: float
    why: str
    node: str = ""


@dataclass(frozen=True)
class NodeRow:
    """How one node is computed.

    Attributes:
        name: Name of the node.
        op: Its operator.
        fate: ``int8``, ``folded`` (into the previous node), ``clamp`` (on integers) or ``float``.
        why: The reason if it is not int8; the rounding of an int8 node's weight if it is not round-to-nearest.
        inputs: Names of the tensors that it reads, without constants.
        outputs: Names of the tensors that it writes.
    """

    name: str
    op: str
    fate: str
    why: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportData:
    """Figures of one quantization.

    Attributes:
        model: Path or name of the float model.
        target: Name of the target.
        method: Name of the range method.
        form: ``qdq`` or ``qoperator``.
        arithmetic: Name of the integer executor's arithmetic.
        changes: Changes of the graph and choices made, a sentence each.
        preprocessing: Operations applied to images, audio or text; empty for arrays.
        slow: The usual reasons for slow integers that were found, if the speed gains little.
        slow_causes: Short names of these reasons, such as ``float islands``.
        speed_interval: 95 % interval of this median; 0 and infinity if runs take too long for one.
        evaluation_preprocessing: The record of the evaluation samples' preprocessing
            (`ptq.core.preprocess_record`) if it differs from that of the calibration samples; None if it does not.
        calibration_samples: Number of calibration samples.
        evaluated_on: Samples for accuracy, in words; empty if accuracy was not measured.
        evaluation: Float, int8 and integers on the same samples; None if accuracy was not measured.
        float_bytes: File size of the float model.
        int8_bytes: File size of the quantized model.
        computed_bytes: Bytes of it by which evaluated constants exceed what the float model computes them from.
        speed: Speed of int8 relative to float in ``speed_runtime`` with batch 1, measured in interleaved runs: the
            median (see `ptq.evaluation.speed`); None if not measured.
        speed_runtime: The runtime of the speed: that of the target if it is installed, else ONNX Runtime.
        min_speedup: The lowest speed that was asked for; None for none.
        estimated_speed: The speed that the table of times estimates; None without a table, or if the model is small.
        cost_note: That the table of times is of another kind of processor than this one, or that a given one has no
            effect; empty if neither is so.
        frontier: The trade of speed against error that the rule of ``prefer`` estimates; None if it does not apply.
        islands: Operators of each float island of the integer executor, by name; ONNX Runtime computes them for it,
            up to last bits as in the whole model.
        tensors: Quantization error of each tensor, lowest SQNR first.
        nodes: Result for each node, in graph order.
        saturable: Nodes whose sums of two products can saturate in ONNX Runtime on x86 without VNNI.
        budget: The drop compared with the budget; None without a budget.
        search: Nodes kept in float for the budget; None without a search.
        litert: The check of the `.tflite` file in LiteRT; None in other forms.
        suspects: Known causes of bad figures that were found: a runtime that refuses the model, no gain in size or
            speed, then the serious ones first.
        skipped: Skipped bad samples, each with its reason.
        shared_samples: Number of evaluation samples whose content is also that of a calibration sample.
        calibration_digest: Digest of the calibration samples by content (`ptq.data.sample_digest`); empty without.
        evaluation_digest: Digest of the evaluation samples by content; empty without.
        versions: Versions of the libraries that the figures depend on.
    """

    model: str
    target: str
    method: str
    form: str
    arithmetic: str
    changes: tuple[str, ...]
    preprocessing: Mapping[str, Any]
    calibration_samples: int
    evaluated_on: str
    evaluation: Evaluation | None
    float_bytes: int
    int8_bytes: int
    speed: float | None
    islands: Mapping[str, tuple[str, ...]]
    tensors: tuple[TensorRow, ...]
    nodes: tuple[NodeRow, ...]
    saturable: tuple[str, ...] = ()
    budget: Budget | None = None
    search: BudgetSearch | None = None
    suspects: tuple[Diagnosis, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    shared_samples: int = 0
    calibration_digest: str = ""
    evaluation_digest: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    evaluation_preprocessing: Record | None = None
    speed_interval: tuple[float, float] | None = None
    slow: tuple[str, ...] = ()
    min_speedup: float | None = None
    estimated_speed: float | None = None
    cost_note: str = ""
    frontier: EstimatedFrontier | None = None
    speed_runtime: str = ONNX_RUNTIME
    litert: LitertCheck | None = None
    slow_causes: tuple[str, ...] = ()
    computed_bytes: int = 0

    @property
    def has_integers(self) -> bool:
        """Whether a node computes on integers, as far as the nodes are listed."""
        return not self.nodes or any(node.fate != "float" for node in self.nodes)

    @property
    def over_budget(self) -> bool:
        """Whether a budget was given and is exceeded."""
        return self.budget is not None and self.budget.verdict == "exceeded"

    @property
    def is_timed_in_its_runtime(self) -> bool:
        """Whether the speed was measured in the runtime that the target is for."""
        return self.speed_runtime != ONNX_RUNTIME or get_target(self.target).has_ort_workarounds

    @property
    def speed_source(self) -> str:
        """Where the speed was measured, in words."""
        if self.is_timed_in_its_runtime:
            return f"{self.speed_runtime}, batch 1"
        return f"in {self.speed_runtime}; other runtimes differ"

    @property
    def speed_sentence(self) -> str:
        """The measured speed in words; empty if it was not measured."""
        if self.speed is None:
            return ""
        return describe_speed(self.speed, self.speed_interval, "float", self.speed_source)

    @property
    def speed_shortfall(self) -> str:
        """The sentence that the result is too slow; empty unless the whole interval is below the speed asked for."""
        if self.min_speedup is None or self.speed is None or self.speed_interval is None:
            return ""
        if self.speed_interval[1] >= self.min_speedup:
            return ""
        return (
            f"speed {self.speed:.2f} times float, but at least {self.min_speedup:g} was asked for; "
            "prefer speed, allow a larger drop, or ask for less"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before any figure: no gain in size or speed, then the most serious first."""
        found = [str(suspect) for suspect in self.suspects]
        if self.budget is not None and self.budget.verdict != "held":
            first = sum(suspect.serious or suspect.headline for suspect in self.suspects)
            found.insert(first, self.budget.sentence)
        if self.speed_shortfall:
            found.insert(0, self.speed_shortfall)
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """What matters only for some uses of the model; nothing of it questions the figures."""
        found = [*self.slow]
        if self.saturable:
            formats = "reduced or u8" if get_target(self.target).uint8_weights else "reduced"
            found.append(
                f"x86 processors without VNNI: {plural(len(self.saturable), 'node')} may saturate; "
                f"use weights {formats}, or verify the model there"
            )
        if self.cost_note:
            found.append(self.cost_note)
        if self.is_badly_estimated:
            found.append(
                f"speed {self.speed:.2f} times float, but {self.estimated_speed:.2f} estimated: the table of times "
                "does not fit this machine and model; tune makes one that does"
            )
        return tuple(found)

    @property
    def is_badly_estimated(self) -> bool:
        """Whether the whole interval of the measured speed is far from the estimate."""
        if self.estimated_speed is None or self.speed_interval is None:
            return False
        low, high = self.speed_interval
        return (
            high < self.estimated_speed / _ESTIMATED_WITHIN
            or low > self.estimated_speed * _ESTIMATED_WITHIN
        )

    def describe_preprocessing(self) -> tuple[str, ...]:
        """What was applied to the samples: a line, or two if calibration and evaluation differ; none for arrays."""
        if self.evaluation_preprocessing is not None:
            evaluated = list_recorded_options(self.evaluation_preprocessing)
            return (
                f"calibration: {describe_sample_source(self.preprocessing)}",
                f"evaluation: {describe_sample_source(evaluated)}",
            )
        return (describe_preprocessing(self.preprocessing),) if self.preprocessing else ()

    def require_budget(self, result: object = None) -> None:
        """Make sure that the accuracy budget is shown to hold, and that the model is as fast as was asked for.

        Args:
            result: What the error carries as its ``result``.

        Raises:
            BudgetError: It is exceeded, or the samples cannot decide it; or the model is too slow.
        """
        try:
            if self.speed_shortfall:
                raise BudgetError(self.speed_shortfall)
            if self.budget is not None:
                self.budget.require_held()
        except BudgetError as error:
            error.result = result
            raise

    def to_json(self) -> str:
        """The report as JSON text, warnings first; infinite and undefined numbers are null."""
        return format_json({"warnings": self.warnings, **asdict(self)})
