"""The weighted sums of a Conv, Gemm or MatMul, and the integers that they add on some samples.

The inputs of one weighted sum are a row. In a convolution they are the taps of one window, channel after channel as
its weights are laid out, with 0 where the window lies on padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.opspec import WEIGHT_INPUT
from ptq.core.types import UINT8, QuantParams
from ptq.kernels.int16_saturation import clip_pair_sums
from ptq.kernels.window import WindowAxis, build_window_axes
from ptq.model.node import Node, get_attributes, get_constant_shape, get_operator, require_constant
from ptq.model.weights.layer_weights import count_output_channels, count_summed_inputs
from ptq.model.weights.matrix_layout import view_input_output_matrix

_OUTSIDE = -(2**48)
"""What makes the sum of a tap's places negative."""


class LinearOp:
    """The weighted sums of a Conv, Gemm or MatMul whose weight is constant.

    Attributes:
        node: The node.
        groups: Number of groups of inputs.
        length: Number of inputs that one sum adds, K.
        taps: How many of these inputs belong to one channel.
        outputs_per_group: Number of sums in one group.
        input_channels: Number of channels of the input.
    """

    def __init__(self, node: Node) -> None:
        """Read shapes and attributes of the node once, since reading them from a graph is slow."""
        shape = get_constant_shape(node.inputs[WEIGHT_INPUT])
        assert shape is not None
        self.node = node
        self._attributes = get_attributes(node)
        self._shape = shape
        self._taps_by_size: dict[tuple[int, ...], list[NDArray[np.int64]]] = {}
        self._convolves = get_operator(node) == "Conv"
        self.groups = int(self._attributes.get("group", 1)) if self._convolves else 1
        self.length = count_summed_inputs(node, shape)
        self.taps = math.prod(shape[2:]) if self._convolves else 1
        self.outputs_per_group = count_output_channels(node, shape) // self.groups
        self.input_channels = self.groups * self.length // self.taps

    def weight_columns(self) -> NDArray[Any]:
        """The weight with one column for each sum, shape (groups, K, sums)."""
        weight = require_constant(self.node.inputs[WEIGHT_INPUT])
        if self._convolves:
            grouped: NDArray[Any] = weight.reshape(self.groups, self.outputs_per_group, self.length)
            return grouped.transpose(0, 2, 1)
        whole: NDArray[Any] = view_input_output_matrix(weight, self._attributes)[None]
        return whole

    def from_columns(self, columns: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `weight_columns`: an array of shape (groups, K, sums), laid out as the node's weight."""
        if self._convolves:
            return columns.transpose(0, 2, 1).reshape(self._shape)
        return view_input_output_matrix(columns[0], self._attributes)

    def avoid_saturation(self, integers: NDArray[Any]) -> NDArray[Any]:
        """The integers with no two neighbours whose products saturate int16.

        Args:
            integers: The integers of some sums, laid out as by `weight_columns`: all inputs of a group, or those of
                some of its channels.
        """
        if self._adds_one_by_one():
            return integers
        by_tap = self._by_tap(integers)
        clipped = clip_pair_sums(by_tap.reshape(integers.shape)).reshape(by_tap.shape)
        return clipped.swapaxes(1, 2).reshape(integers.shape)

    def avoid_channel_saturation(self, integers: NDArray[Any]) -> NDArray[Any]:
        """The same for kernels that pair only the channels of each tap (`ptq.core.target.Target.pairs_channels`)."""
        if self._adds_one_by_one():
            return integers
        clipped = clip_pair_sums(self._by_tap(integers))
        return clipped.swapaxes(1, 2).reshape(integers.shape)

    def _adds_one_by_one(self) -> bool:
        """Whether the node is a depthwise convolution."""
        return self._convolves and self.length == self.taps and self.outputs_per_group == 1

    def _by_tap(self, integers: NDArray[Any]) -> NDArray[Any]:
        """The integers of some sums with shape (groups, taps, channels, sums)."""
        return integers.reshape(len(integers), -1, self.taps, integers.shape[2]).swapaxes(1, 2)

    def sample_rows(
        self, samples: NDArray[Any], params: QuantParams, first: int, quota: int
    ) -> list[NDArray[np.int16]]:
        """Some rows of each sample, as integers without zero point, shape (groups, K, rows).

        Wider integers than 8 bits become those of 8 bits over the same range.

        The choice of rows depends only on the number of the sample and on how many rows a sample has.

        Args:
            samples: The node's first input of several samples, stacked along a new first axis.
            params: Parameters of the input.
            first: Number of the first sample.
            quota: Largest number of rows of a sample.
        """
        params = _as_8_bits(params)
        if self._convolves:
            return self._sample_windows(samples, params, first, quota)
        lines = samples.reshape(len(samples), -1, self.length)
        at = _pick_positions(lines.shape[1], quota, first, len(samples))
        picked = [some[places] for some, places in zip(lines, at, strict=True)]
        return [_to_centered_codes(some, params).astype(np.int16).T[None] for some in picked]

    def channel_sums(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        """The sum of each channel of the input over all values of samples that are stacked as for `sample_rows`."""
        by_channel = samples.reshape(self._channel_shape(samples[0]))
        sums: NDArray[np.float64] = by_channel.sum((0, 2), np.float64)
        return sums

    def rounding_error_sums(
        self, samples: NDArray[Any], params: QuantParams, first: int, quota: int
    ) -> tuple[NDArray[np.float64], int]:
        """The sum of the rounding errors of some values of each channel of the input, and their number.

        Args:
            samples: The node's first input, stacked as for `sample_rows`.
            params: Parameters of the input.
            first: Number of the first sample.
            quota: Largest number of values of a channel of a sample.
        """
        by_sample = samples.reshape(len(samples), *self._channel_shape(samples[0]))
        axis = 1 if by_sample.shape[3] == 1 else 3
        at = _pick_positions(by_sample.shape[axis], quota, first, len(samples))
        if at.shape[1] < by_sample.shape[axis]:
            some = [one.take(places, axis - 1) for one, places in zip(by_sample, at, strict=True)]
            by_sample = np.stack(some)
        # float32 would round the errors of wider integers
        kind = np.float32 if params.qtype.bits <= UINT8.bits else np.float64
        error: NDArray[np.floating[Any]] = _to_centered_codes(by_sample, params).astype(
            kind, copy=False
        )
        error *= np.float32(params.scale)
        error -= by_sample
        sums: NDArray[np.float64] = np.einsum("ixcv->c", error.astype(np.float64))
        return sums, error.size // self.input_channels

    def _channel_shape(self, sample: NDArray[Any]) -> tuple[int, int, int]:
        values = math.prod(sample.shape[2:]) if self._convolves else 1
        return -1, self.input_channels, values

    def _sample_windows(
        self, samples: NDArray[Any], params: QuantParams, first: int, quota: int
    ) -> list[NDArray[np.int16]]:
        taps = self._taps(samples.shape[3:])
        outputs = tuple(along.shape[1] for along in taps)
        at = _pick_positions(samples.shape[1] * math.prod(outputs), quota, first, len(samples))
        image, place = np.divmod(at, math.prod(outputs))
        inside, position = _find_tap_positions(taps, np.unravel_index(place, outputs))
        position += image * math.prod(samples.shape[3:])
        rows = []
        for i, sample in enumerate(samples):
            places = position[:, i].reshape(-1)
            plane = sample.swapaxes(0, 1).reshape(self.input_channels, -1)
            if plane.shape[1] < len(places):  # windows that overlap are rounded once
                codes = _to_centered_codes(plane, params).astype(np.int16).take(places, axis=1)
            else:
                codes = _to_centered_codes(plane.take(places, axis=1), params).astype(np.int16)
            if inside is not None:
                codes *= inside[:, i].reshape(-1)
            rows.append(codes.reshape(self.groups, self.length, -1))
        return rows

    def _taps(self, sizes: tuple[int, ...]) -> list[NDArray[np.int64]]:
        """`_place_taps` of an input of some spatial sizes."""
        if sizes not in self._taps_by_size:
            attrs = self._attributes
            axes = build_window_axes(
                sizes,
                self._shape[2:],
                strides=attrs.get("strides"),
                pads=attrs.get("pads") if attrs.get("auto_pad", "NOTSET") == "NOTSET" else None,
                dilations=attrs.get("dilations"),
                auto_pad=attrs.get("auto_pad", "NOTSET"),
            )
            self._taps_by_size[sizes] = _place_taps(axes)
        return self._taps_by_size[sizes]


def _place_taps(axes: Sequence[WindowAxis]) -> list[NDArray[np.int64]]:
    """What each axis adds to the place of a tap in the input, shape (taps, windows); `_OUTSIDE` it on padding."""
    found, step = [], 1
    for axis in reversed(axes):
        first = np.arange(axis.outputs) * axis.stride - axis.begin
        at = first + np.arange(axis.kernel)[:, None] * axis.dilation
        found.append(np.where((at >= 0) & (at < axis.size), at * step, _OUTSIDE))
        step *= axis.size
    return found[::-1]


def _find_tap_positions(
    taps: Sequence[NDArray[np.int64]], windows: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.bool_] | None, NDArray[np.int64]]:
    """Whether each tap of some windows lies inside the input, None if all do, and its place there.

    Args:
        taps: Those of `_place_taps`.
        windows: The number of each window along each axis; all arrays have one shape.

    Returns:
        Two arrays of shape (taps, *shape of the windows).
    """
    shape = windows[0].shape
    position = np.zeros((1, *shape), np.int64)
    for along, number in zip(taps, windows, strict=True):
        position = (position[:, None] + along.take(number, axis=1)).reshape(-1, *shape)
    inside = position >= 0
    return None if inside.all() else inside, np.maximum(position, 0, out=position)


def _as_8_bits(params: QuantParams) -> QuantParams:
    """The parameters, or for wider integers those of uint8 over the same range, whose products have exact sums."""
    if params.qtype.bits <= UINT8.bits:
        return params
    steps = params.qtype.lsb_count / UINT8.lsb_count
    zero_point = round((int(params.zero_point) - params.qtype.lo) / steps)
    return QuantParams.per_tensor(float(params.scale) * steps, zero_point, UINT8)


def _to_centered_codes(values: NDArray[Any], params: QuantParams) -> NDArray[np.float32]:
    """The integers of `QuantParams.quantize` less the zero point."""
    zero_point = int(params.zero_point)
    codes: NDArray[np.float32] = np.asarray(values / np.float32(params.scale))
    np.rint(codes, out=codes)
    return np.clip(codes, params.qtype.lo - zero_point, params.qtype.hi - zero_point, out=codes)


def _pick_positions(available: int, quota: int, first: int, samples: int) -> NDArray[np.int64]:
    """Positions of rows for each sample, shape (samples, at most quota).

    They are multiples of the golden ratio of the number of rows, so that no period in a sample meets them.
    """
    count = min(quota, available)
    if count == available:
        return np.zeros((samples, 1), np.int64) + np.arange(available)
    number = (first + np.arange(samples))[:, None] * count + np.arange(count)
    picked: NDArray[np.int64] = number % available * _find_golden_stride(available) % available
    return picked


@cache
def _find_golden_stride(length: int) -> int:
    """A number near the golden ratio of a length, without a common divisor."""
    return next(s for s in range(round(length * 0.618), 2 * length) if math.gcd(s, length) == 1)
