"""Layout of a step's arrays: channels first as ONNX has them, or channels last as its kernel needs them.

    SPATIAL   channels last from rank 3 on; the weight as O·spatial·I
    FOLLOWS   the layout of its inputs; attributes that name an axis are translated, and axes that are computed
              at run time keep it channels first
    FIRST     channels first

These are the values of `ptq.core.opspec.Layout`. An operator without a row, a quantizer, is FOLLOWS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ptq.core.ops import OPS
from ptq.core.opspec import Layout, OpSpec, Role
from ptq.core.types import QuantParams
from ptq.executor.layout import (
    Tensor,
    to_attrs_channels_last,
    to_weight_channels_last,
    to_weight_qparams_channels_last,
)
from ptq.executor.program import Step
from ptq.model.node import QUANTIZERS

_PAD_AXES = 3
"""Position of the axes among the inputs of a Pad."""


@dataclass(frozen=True, eq=False)
class StepLayout:
    """The layout of one step, for inputs of given ranks and layouts.

    Attributes:
        step: The step.
        spec: Its row of the operator table; None for a quantizer.
        is_channels_last: Whether its activations and its output are channels last.
        rank: Largest rank among the inputs. Channels-last inputs of lower rank are brought to it.
        attrs: The step's attributes; axes count in this layout.
    """

    step: Step
    spec: OpSpec | None
    is_channels_last: bool
    rank: int
    attrs: Mapping[str, Any]

    def converter(self, position: int) -> Callable[[Tensor], NDArray[Any]]:
        """Return the function that brings the input at that position to this layout."""
        role = Role.KEEP if self.spec is None else self.spec.role_of(position)
        if role in (Role.BIAS, Role.VALUE):
            return lambda tensor: tensor.array
        if not self.is_channels_last or (self.spec is not None and role is Role.KEEP):
            return Tensor.to_channels_first
        if role is Role.WEIGHT:
            return lambda tensor: to_weight_channels_last(self.step.op, tensor.array, self._group)
        return lambda tensor: tensor.to_channels_last(self.rank)

    def input_qparams(self, params: Mapping[str, QuantParams]) -> tuple[QuantParams | None, ...]:
        """Return the parameters of each input, per-channel ones along the axis of this layout.

        Args:
            params: Parameters of the program's tensors and constants, by name.
        """
        found = [None if name is None else params.get(name) for name in self.step.inputs]
        is_spatial = self.spec is not None and self.spec.layout is Layout.SPATIAL
        if is_spatial and len(found) > 1 and (weight := found[1]) is not None:
            found[1] = to_weight_qparams_channels_last(self.step.op, weight, self._group)
        return tuple(found)

    @property
    def _group(self) -> int:
        return int(self.attrs.get("group", 1))


def choose_layout(
    step: Step, inputs: Sequence[Tensor | None], params: Mapping[str, QuantParams]
) -> StepLayout:
    """Choose the layout of a step.

    Args:
        step: The step.
        inputs: Its inputs; only their ranks and layouts count.
        params: Parameters of the program's tensors and constants, by name.
    """
    spec = OPS.get(step.op)
    layout = Layout.FOLLOWS if spec is None else spec.layout
    rank = max((t.array.ndim for t in inputs if t is not None), default=0)
    attrs = dict(step.attrs)
    if layout is not Layout.FOLLOWS:
        return StepLayout(step, spec, layout is Layout.SPATIAL and rank > 2, rank, attrs)
    # Broadcasting aligns the axes of ONNX's layout: a channels-last input must have the largest rank.
    ranks = [t.array.ndim for t in inputs if t is not None and t.is_channels_last]
    is_last = bool(ranks) and max(ranks) == rank and not _has_untranslated_axes(step, params)
    if is_last:
        attrs = to_attrs_channels_last(step.op, attrs, rank)
    return StepLayout(step, spec, is_last, rank, attrs)


def _has_untranslated_axes(step: Step, params: Mapping[str, QuantParams]) -> bool:
    """Whether it names axes of ONNX's layout by more than attributes.

    These are a quantizer with scales along an axis, and a Pad whose amounts or axes are computed at run time.
    """
    if step.op == "Pad":
        computes_axes = "axes" not in step.attrs and any(step.inputs[_PAD_AXES:])
        return computes_axes or not step.attrs.keys() & {"pads", "axes"}
    around = (params.get(name or "") for name in (*step.inputs[:1], *step.outputs))
    return step.op in QUANTIZERS and any(p is not None and p.axis is not None for p in around)
