"""Conversion between ONNX's layout and channels last: arrays, weights, and axes in attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array at run time.

    Attributes:
        array: The array.
        is_channels_last: Whether its channels are the last axis instead of axis 1.
    """

    array: NDArray[Any]
    is_channels_last: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in ONNX's layout; () for a sequence, which a float island may return."""
        shape: tuple[int, ...] = getattr(self.array, "shape", ())
        return (shape[0], shape[-1], *shape[1:-1]) if self.is_channels_last else shape

    def slice_batch(self, rows: slice) -> Tensor:
        """Return some rows along the leading axis, which is the same in both layouts."""
        return Tensor(self.array[rows], self.is_channels_last)

    def to_channels_last(self, rank: int | None = None) -> NDArray[Any]:
        """Return the array channels last; an array of fewer axes is first broadcast to ``rank``."""
        if self.is_channels_last:
            return self.array
        array = self.array
        if rank is not None and array.ndim < rank:
            array = array.reshape((1,) * (rank - array.ndim) + array.shape)
        return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if array.ndim > 2 else array

    def to_channels_first(self) -> NDArray[Any]:
        """Return the array in ONNX's layout."""
        return (
            np.ascontiguousarray(np.moveaxis(self.array, -1, 1))
            if self.is_channels_last
            else self.array
        )


def concat_batch(pieces: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors of one layout along the batch axis."""
    return Tensor(np.concatenate([piece.array for piece in pieces]), pieces[0].is_channels_last)


def to_weight_channels_last(op: str, weight: NDArray[Any], group: int) -> NDArray[Any]:
    """Return a convolution's weight as O·spatial·I, from ONNX's O·I·spatial or (transposed) I·O·spatial."""
    if op == "ConvTranspose":
        inputs, per_group = weight.shape[:2]
        parts = weight.reshape(group, inputs // group, per_group, *weight.shape[2:])
        weight = np.moveaxis(parts, 2, 1).reshape(
            group * per_group, inputs // group, *weight.shape[2:]
        )
    return np.ascontiguousarray(np.moveaxis(weight, 1, -1))


def to_weight_qparams_channels_last(op: str, params: QuantParams, group: int) -> QuantParams:
    """Return a convolution's weight parameters along O; groups of a transposed one share theirs."""
    if params.axis is None:
        return params
    repeats = group if op == "ConvTranspose" else 1
    return QuantParams(
        np.tile(params.scale, repeats), np.tile(params.zero_point, repeats), params.qtype, 0
    )


def to_axis_channels_last(axis: int, rank: int) -> int:
    """Return the position of an axis of ONNX's layout in the channels-last layout."""
    axis %= rank
    return axis if axis == 0 else rank - 1 if axis == 1 else axis - 1


_DEFAULT_AXIS: Mapping[str, int] = {"Concat": 0, "LpNormalization": -1, "Split": 0}
"""Operators with an attribute for one axis, and the default of that attribute."""


def to_attrs_channels_last(op: str, attrs: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return the attributes of an operator with Layout.FOLLOWS for a channels-last array of that rank."""
    renamed = dict(attrs)
    if op in _DEFAULT_AXIS:
        renamed["axis"] = to_axis_channels_last(int(attrs.get("axis", _DEFAULT_AXIS[op])), rank)
    if op == "Pad" and "pads" in attrs and "axes" not in attrs:
        pads = np.asarray(attrs["pads"]).reshape(2, rank)
        order = [0, *range(2, rank), 1]
        renamed["pads"] = pads[:, order].reshape(-1)
    if op == "Pad" and "axes" in attrs:
        renamed["axes"] = np.array(
            [to_axis_channels_last(int(a), rank) for a in np.atleast_1d(attrs["axes"])]
        )
    return renamed
