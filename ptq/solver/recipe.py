"""The request for one quantization: target, range method, weight format, rounding, nodes to keep float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ptq.core.errors import UsageError
from ptq.core.plan import Plan
from ptq.core.target import Target
from ptq.core.targets import TARGETS
from ptq.model.session.exact_sums import can_add_exactly, has_exact_int8_sums

QuantizedForm = Literal["qdq", "qoperator", "tflite"]
"""Forms of a quantized model. ``tflite`` is LiteRT's file; its integers are those of the QDQ form."""
WeightFormat = Literal["s8", "reduced", "u8"]
WeightFormatOption = Literal["auto", "s8", "reduced", "u8"]
RoundingMethod = Literal["second-order", "nearest"]
MethodName = Literal["auto", "minmax", "percentile", "kl", "mse"]
"""``auto``, and the names of `ptq.observers.OBSERVERS`, for type checkers."""

AUTO: Final = "auto"
DEFAULT_METHOD: Final = AUTO
FALLBACK_METHOD = "mse"
"""The range method under ``auto`` for a tensor that has no chosen method."""
REDUCED_NOTE = (
    "weight format: reduced (sums of two products fit int16, in which x86 without VNNI saturates)"
)
EXACT_NOTE = (
    "in ONNX Runtime: products are added exactly, as in the target's runtime (session.x64quantprecision); without "
    "the option sums of two saturate on this processor"
)


@dataclass(frozen=True)
class ChosenMethod:
    """The range method of one scale group.

    Attributes:
        method: Name of the range method.
        detail: The reason, for the plan.
    """

    method: str
    detail: str


@dataclass(frozen=True)
class Recipe:
    """The request for one quantization.

    Attributes:
        target: Name of the target to quantize for.
        method: Name of the range method. ``auto`` takes ``chosen_methods``.
        form: ``qdq``, ``qoperator`` or ``tflite``.
        per_tensor: One scale for a whole weight instead of one for each output channel.
        correct_bias: Subtract the mean error of rounded weights from the biases.
        float_nodes: Names of nodes, or operators, to keep float, with the reason.
        weights: ``s8``; ``reduced``, int8 with neighbours so small that their products do not saturate int16 on a
            processor without VNNI; or ``u8``, int8 weights stored as uint8 with zero point 128, the same integers.
        rounding: How weights become integers. ``second-order`` needs input covariances; nodes without them are
            rounded to the nearest.
        chosen_methods: The range method of single scale groups, by any tensor of the group.
        wide_nodes: Names of nodes whose activations have the target's wide type, 16 bits, with the reason.
        uncompared: Why range methods were not compared, for the plan.
        range_note: How ``chosen_methods`` was found, for the report.
        self_check_note: What the self-check kept float, for the report.
        knee_note: What stays float because its integers cost much error for little time, for the report.
        integer_border: Inputs and outputs of the model will be integers. So the layers that read or write them do not
            stay float for speed.
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
    wide_nodes: Mapping[str, str] = field(default_factory=dict)
    uncompared: str = "without samples to compare methods"
    range_note: str = ""
    self_check_note: str = ""
    knee_note: str = ""
    integer_border: bool = False

    @property
    def target_row(self) -> Target:
        """The target, as it decides for this request."""
        row = TARGETS[self.target]
        border = self.integer_border
        return replace(row, leaves_layers_float=False, integer_border=True) if border else row

    @property
    def default_method(self) -> ChosenMethod:
        """The range method of scale groups that ``chosen_methods`` does not name."""
        if self.method == AUTO:
            return ChosenMethod(FALLBACK_METHOD, f"{FALLBACK_METHOD}, {self.uncompared}")
        return ChosenMethod(self.method, self.method)

    def as_signed_qdq(self) -> Recipe:
        """The same request in QDQ form with signed weights: the integers are the same."""
        return replace(self, form="qdq", weights="s8" if self.weights == "u8" else self.weights)

    def with_float_nodes(self, floats: Mapping[str, str]) -> Recipe:
        """The same request with more nodes kept float, each with its reason."""
        return replace(self, float_nodes={**self.float_nodes, **floats})

    def with_wide_nodes(self, nodes: Mapping[str, str]) -> Recipe:
        """The same request with 16 bits for the activations of more nodes, each with its reason."""
        return replace(self, wide_nodes={**self.wide_nodes, **nodes})


def resolve_weight_format(
    asked: WeightFormatOption, row: Target, plan: Plan | None
) -> WeightFormat:
    """The weight format that an option stands for.

    ``auto`` is ``reduced`` where this processor saturates sums of two products, and the target's runtime does too on
    such processors, or ONNX Runtime is below 1.32 and cannot do without. Otherwise it is ``s8``. With a plan it is
    the plan's.

    Args:
        asked: The option.
        row: The target.
        plan: The user's plan, which sets the scales of weights; None without a plan.

    Raises:
        UsageError: The target has no such format, or the plan excludes it.
    """
    if asked == "auto" and plan is not None and plan.weights is not None:
        asked = plan.weights
    if asked == "u8" and not row.uint8_weights:
        able = ", ".join(target.name for target in TARGETS.values() if target.uint8_weights)
        raise UsageError(f"weights u8 need target {able}, not {row.name}; choose auto or s8")
    if asked == "reduced" and not row.weight.signed:
        raise UsageError(
            f"weights reduced are int8, but target {row.name} has uint8; choose auto or s8"
        )
    if asked == "reduced" and plan is not None:
        raise UsageError(
            "a plan sets the scales of weights: weights reduced cannot change them; choose auto or s8"
        )
    if asked == "auto":
        if plan is not None or not row.weight.signed:
            return "s8"
        adds_exactly = has_exact_int8_sums if row.int16_pairs_saturate else can_add_exactly
        return "s8" if adds_exactly() else "reduced"
    return asked
