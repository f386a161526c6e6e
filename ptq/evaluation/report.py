"""What a run of ptq has to say: data to print, to store, to compare; nothing is printed here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ptq.evaluation.drop import Budget, BudgetSearch
from ptq.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class TensorRow:
    """The quantization error of one tensor, by itself.

    Attributes:
        name: The tensor.
        kind: ``activation`` or ``weight``.
        sqnr_db: Signal over quantization error, in decibels.
        rounding: Share of the squared error that rounding makes, 0 to 1; clipping makes the rest.
        saturation: Share of values beyond the range, 0 to 1.
        lo: Lowest representable value, of the widest channel.
        hi: Highest representable value.
        why: Where its scale comes from.
    """

    name: str
    kind: str
    sqnr_db: float
    rounding: float
    saturation: float
    lo: float
    hi: float
    why: str


@dataclass(frozen=True)
class NodeRow:
    """What became of one node.

    Attributes:
        name: The node.
        op: Its operator.
        fate: ``int8``, ``folded`` (into the node before), ``clamp`` (on integers) or ``float``.
        why: The reason where it is not plainly int8, or how its weight is rounded where not to the nearest.
    """

    name: str
    op: str
    fate: str
    why: str


@dataclass(frozen=True)
class Diagnosis:
    """Something that is known to ruin quantized models.

    Attributes:
        what: What is wrong.
        where: Tensor, node or samples.
        advice: What to do about it.
    """

    what: str
    where: str
    advice: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.advice}"


@dataclass(frozen=True)
class Report:
    """One quantization.

    Attributes:
        model: Path or name of the float model.
        target: Name of the target.
        method: Name of the range method.
        form: ``qdq`` or ``qoperator``.
        arithmetic: The integers' arithmetic.
        changes: What preparation did to the graph, a sentence each.
        preprocessing: What was applied to images; empty for arrays.
        calibration_samples: Their number.
        evaluated_on: Which samples accuracy was measured on, in words; empty where it was not.
        evaluation: Float, int8 and integers on the same samples.
        float_bytes: Size of the float model as a file.
        int8_bytes: Size of the quantized one.
        speed: How many times faster int8 runs in ONNX Runtime than float, one sample at a time.
        islands: Nodes computed in float inside the integer run, agreeing by construction.
        tensors: Worst first.
        nodes: In graph order.
        saturable: Nodes whose sums of two products may saturate in ONNX Runtime on x86 without VNNI.
        budget: The drop held against the budget; None where none was given.
        search: What was left float for the budget; None where nothing was searched.
        suspects: What is known to ruin quantized models and was found here.
        skipped: Bad samples that were left out, with the reason.
        versions: Versions of what the figures depend on.
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
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def over_budget(self) -> bool:
        """Whether a budget was given and is exceeded, or could not be reached by leaving nodes float."""
        missed = self.search is not None and not self.search.reached
        return missed or (self.budget is not None and self.budget.verdict == "exceeded")

    def to_json(self) -> str:
        """The report as a JSON document; what is infinite or undefined is null."""
        return dump_json(asdict(self))


def dump_json(document: Any) -> str:
    """JSON for machines: indented, and with null for numbers that JSON does not have."""
    return json.dumps(_replace_non_finite(document), indent=1) + "\n"


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _replace_non_finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
