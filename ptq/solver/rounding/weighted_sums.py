"""What does each output value of a Conv, Gemm or MatMul see of the node's input, in integers?

The inputs of one weighted sum are a row: of a convolution the taps of one window, channel after channel as its
weights are laid out, 0 where the window lies on padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.kernels.int16_saturation import clip_pair_sums
from ptq.kernels.window import WindowAxis, window_axes
from ptq.model.node import Node, attributes_of, constant_of, operator_of


class LinearOp:
    """The weighted sums of a Conv, Gemm or MatMul whose weight is constant.

    Attributes:
        node: The node.
        groups: How many groups of inputs it has.
        length: The inputs that one sum adds, K.
        taps: Of these, how many belong to one channel.
        count: The sums of one group.
        channels: Of the input.
    """

    def __init__(self, node: Node) -> None:
        """Read off the node, once: a graph is slow to ask."""
        weight = constant_of(node.inputs[1])
        assert weight is not None
        self.node = node
        self._attributes = attributes_of(node)
        self._shape = weight.shape
        self._convolves = operator_of(node) == "Conv"
        self._transposed = operator_of(node) == "Gemm" and bool(self._attributes.get("transB"))
        self.groups = int(self._attributes.get("group", 1)) if self._convolves else 1
        if self._convolves:
            self.length, self.taps = math.prod(weight.shape[1:]), math.prod(weight.shape[2:])
            self.outputs_per_group = weight.shape[0] // self.groups
        else:
            self.length, self.outputs_per_group = (
                weight.T.shape if self._transposed else weight.shape
            )
            self.taps = 1
        self.input_channels = self.groups * self.length // self.taps

    def weight_columns(self) -> NDArray[Any]:
        """The weight with the inputs of each sum in a column, shape (groups, K, sums)."""
        weight = constant_of(self.node.inputs[1])
        assert weight is not None
        if self._convolves:
            apart: NDArray[Any] = weight.reshape(self.groups, self.outputs_per_group, self.length)
            return apart.transpose(0, 2, 1)
        whole: NDArray[Any] = (weight.T if self._transposed else weight)[None]
        return whole

    def from_columns(self, columns: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `columns`: an array of that shape, laid out as the node's weight."""
        if self._convolves:
            return columns.transpose(0, 2, 1).reshape(self._shape)
        whole: NDArray[Any] = columns[0]
        return whole.T if self._transposed else whole

    def avoid_saturation(self, integers: NDArray[Any]) -> NDArray[Any]:
        """Integers for some sums, as `columns` lays them out, with no two neighbours that saturate int16.

        All inputs of a group, or those of some of its channels.
        """
        if self._convolves and self.length == self.taps and self.outputs_per_group == 1:
            return integers  # added one by one
        apart = integers.reshape(len(integers), -1, self.taps, integers.shape[2]).swapaxes(1, 2)
        kept = clip_pair_sums(apart.reshape(integers.shape)).reshape(apart.shape)
        return kept.swapaxes(1, 2).reshape(integers.shape)

    def sample_rows(
        self, samples: NDArray[Any], params: QuantParams, first: int, quota: int
    ) -> NDArray[np.int16]:
        """Some rows of each sample, as integers less their zero point, shape (groups, rows, K).

        Which rows depends on nothing but the number of the sample and how many it has.

        Args:
            samples: The node's first input of several samples, stacked along a new first axis.
            params: What the input is quantized with.
            first: The number of the first sample.
            quota: How many rows of a sample at most.
        """
        if self._convolves:
            return self._sample_windows(samples, params, first, quota)
        lines = samples.reshape(len(samples), -1, self.length)
        at = _pick_positions(lines.shape[1], quota, first, len(samples))
        seen = lines[np.arange(len(samples))[:, None], at]
        return _centered_codes(seen, params).reshape(1, -1, self.length)

    def channel_sums(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        """The sum of each channel of the input over all values of some samples, stacked as for `rows`."""
        sums: NDArray[np.float64] = samples.reshape(self._channel_shape(samples)).sum(
            (0, 2), np.float64
        )
        return sums

    def rounding_error_sums(
        self, samples: NDArray[Any], params: QuantParams
    ) -> NDArray[np.float64]:
        """What rounding adds to the sum of each channel of the input, over all values of some samples.

        Args:
            samples: As for `rows`.
            params: What the input is quantized with.
        """
        real = samples.reshape(self._channel_shape(samples))
        error = _centered_codes(real, params) * np.float32(params.scale) - real
        sums: NDArray[np.float64] = error.sum(axis=(0, 2), dtype=np.float64)
        return sums

    def _channel_shape(self, samples: NDArray[Any]) -> tuple[int, int, int]:
        return -1, self.input_channels, math.prod(samples.shape[3:]) if self._convolves else 1

    def _sample_windows(
        self, samples: NDArray[Any], params: QuantParams, first: int, quota: int
    ) -> NDArray[np.int16]:
        attrs, images, channels = self._attributes, samples.shape[1], samples.shape[2]
        found = window_axes(
            samples.shape[3:],
            self._shape[2:],
            strides=attrs.get("strides"),
            pads=attrs.get("pads") if attrs.get("auto_pad", "NOTSET") == "NOTSET" else None,
            dilations=attrs.get("dilations"),
            auto_pad=attrs.get("auto_pad", "NOTSET"),
        )
        outputs = tuple(axis.outputs for axis in found)
        at = _pick_positions(images * math.prod(outputs), quota, first, len(samples))
        image, place = np.divmod(at, math.prod(outputs))
        number = (np.arange(len(samples))[:, None] * images + image).reshape(-1, 1)
        inside, index = _tap_positions(
            found, [c.reshape(-1) for c in np.unravel_index(place, outputs)]
        )
        stacked = samples.reshape(-1, *samples.shape[2:])
        seen = stacked[(number, slice(None), *index)]  # (rows, taps, channels)
        codes = np.where(inside[:, :, None], _centered_codes(seen, params), np.int16(0))
        apart = codes.reshape(len(codes), self.taps, self.groups, channels // self.groups)
        return apart.transpose(2, 0, 3, 1).reshape(self.groups, len(codes), self.length)


def _tap_positions(
    found: Sequence[WindowAxis], starts: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.bool_], list[NDArray[np.int64]]]:
    """Where the taps of some windows lie, shape (windows, taps) by axis, and whether inside the input."""
    taps = np.meshgrid(*(np.arange(a.kernel) * a.dilation for a in found), indexing="ij")
    inside, index = np.ones(1, np.bool_), []
    for axis, start, tap in zip(found, starts, taps, strict=True):
        at = start[:, None] * axis.stride - axis.begin + tap.reshape(1, -1)
        inside = inside & (at >= 0) & (at < axis.size)
        index.append(np.clip(at, 0, axis.size - 1))
    return np.broadcast_to(inside, index[0].shape), index


def _centered_codes(real: NDArray[Any], params: QuantParams) -> NDArray[np.int16]:
    """What `QuantParams.quantize` gives, less the zero point."""
    zero_point = int(params.zero_point)
    steps = np.rint(real / np.float32(params.scale))
    np.clip(steps, params.qtype.lo - zero_point, params.qtype.hi - zero_point, out=steps)
    return steps.astype(np.int16)


def _pick_positions(available: int, quota: int, first: int, samples: int) -> NDArray[np.int64]:
    """Places for each sample, shape (samples, ≤ quota): multiples of the golden ratio, which no period meets."""
    count = min(quota, available)
    if count == available:
        return np.broadcast_to(np.arange(available), (samples, available))
    step = next(
        s for s in range(round(available * 0.618), 2 * available) if math.gcd(s, available) == 1
    )
    number = (first + np.arange(samples))[:, None] * count + np.arange(count)
    picked: NDArray[np.int64] = number % available * step % available
    return picked
