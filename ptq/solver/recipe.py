"""What is asked of a quantization: target, range method, weight format, rounding, nodes to keep float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ptq.core.errors import UsageError
from ptq.core.plan import Plan
from ptq.core.targets import Target
from ptq.model.session import has_exact_int8_sums
from ptq.solver.solve import ChosenMethod

QuantizedForm = Literal["qdq", "qoperator"]


WeightFormat = Literal["s8", "reduced", "u8"]


WeightFormatOption = Literal["auto", "s8", "reduced", "u8"]


RoundingMethod = Literal["second-order", "nearest"]


AUTO = "auto"


DEFAULT_METHOD = AUTO


REDUCED_NOTE = "kept sums of two products within int16, where x86 without VNNI saturates"


FALLBACK_METHOD = "mse"
"""The method where none was chosen for a tensor."""


@dataclass(frozen=True)
class Recipe:
    """What is asked of a quantization.

    Attributes:
        target: What to quantize for.
        method: Name of the range method; ``auto`` takes those of ``chosen``.
        form: ``qdq`` or ``qoperator``.
        per_tensor: One scale for a whole weight.
        correct_bias: Take the mean error of rounded weights out of the biases.
        floats: Nodes, or operators, to leave float, with the reason.
        weights: ``s8``; ``reduced``, int8 too but no two neighbours so large that their products saturate int16 on
            a processor without VNNI; or ``u8``, int8 weights stored as uint8 with zero point 128, the same integers.
        rounding: How weights become integers; ``second-order`` where the ground knows how inputs vary.
        chosen: The range method of single tensors, where that is left to ptq.
        chosen_note: How it was chosen, a sentence.
        left_note: What a check left float beside what was asked, a sentence.
    """

    target: str = "ort"
    method: str = DEFAULT_METHOD
    form: QuantizedForm = "qdq"
    per_tensor: bool = False
    correct_bias: bool = True
    float_nodes: Mapping[str, str] = field(default_factory=dict)
    weights: WeightFormat = "s8"
    rounding: RoundingMethod = "second-order"
    chosen_methods: Mapping[str, ChosenMethod] = field(default_factory=dict)
    range_note: str = ""
    self_check_note: str = ""

    def as_signed_qdq(self) -> Recipe:
        """The same written in QDQ with signed weights: the same integers."""
        return replace(self, form="qdq", weights="s8" if self.weights == "u8" else self.weights)

    def with_float_nodes(self, floats: Mapping[str, str]) -> Recipe:
        """The same with more nodes left float, each with its reason."""
        return replace(self, float_nodes={**self.float_nodes, **floats})


def resolve_weight_format(
    asked: WeightFormatOption, row: Target, plan: Plan | None = None
) -> WeightFormat:
    """How weights are stored; where that is left to ptq, so that nothing saturates where it is checked: here.

    Args:
        asked: What the user asks for.
        row: The target.
        plan: One to obey, which says the scales of weights.

    Raises:
        UsageError: They are not for that target, or a plan says otherwise.
    """
    if asked == "u8" and row.name != "ort":
        raise UsageError(f"weights u8 are for target ort; leave them out for {row.name}")
    if asked == "reduced" and not row.weight.signed:
        raise UsageError(f"weights reduced are int8; leave them out for {row.name}")
    if asked == "reduced" and plan is not None:
        raise UsageError("a plan says the scales of weights; leave out weights reduced")
    if asked == "auto":
        left = plan is not None or not row.weight.signed or has_exact_int8_sums()
        return "s8" if left else "reduced"
    return asked
