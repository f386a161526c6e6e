"""Windows of a convolution or a pool along each spatial axis.

Along one axis, window o covers the positions o·stride − begin + t·dilation, t = 0 … kernel−1, and

    outputs = (size + begin + end − extent) / stride + 1,    extent = (kernel − 1) · dilation + 1

rounded down, or up in ceil mode. SAME pads until outputs = ⌈size / stride⌉.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptq.core.errors import ModelError
from ptq.core.same_padding import compute_same_pads
from ptq.core.types import IntArray

AxesOfSizes = Callable[[tuple[int, ...]], "tuple[WindowAxis, ...]"]
"""Returns the windows in an image of some spatial sizes."""

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class WindowAxis:
    """The windows along one spatial axis.

    Attributes:
        size: Length of the input.
        kernel: Number of taps of a window.
        stride: Distance between the first taps of two windows.
        dilation: Distance between two taps of a window.
        begin: Padding before the input.
        end: Padding after the input.
        outputs: Number of windows.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    outputs: int

    @property
    def extent(self) -> int:
        """Number of positions from a window's first tap to its last, both included."""
        return (self.kernel - 1) * self.dilation + 1

    def input_span(self, first: int, last: int) -> tuple[int, int]:
        """Return the half-open span of positions that the outputs [first, last) read, padding included."""
        start = first * self.stride - self.begin
        return start, start + (last - first - 1) * self.stride + self.extent

    def clip_to_input(self, span: tuple[int, int]) -> slice:
        """Return the part of a span that is not padding; it may be empty."""
        start = min(max(span[0], 0), self.size)
        return slice(start, min(max(span[1], start), self.size))


def check_channels(x: IntArray, channels: int) -> None:
    """Check that channels-last x has the channels that a convolution reads.

    Raises:
        ModelError: It has another number.
    """
    if x.shape[-1] != channels:
        raise ModelError(
            f"a convolution of {channels} input channels got {x.shape[-1]}; check the input's layout"
        )


def build_window_axes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
) -> tuple[WindowAxis, ...]:
    """Return the windows along every spatial axis.

    Args:
        sizes: Spatial sizes of the input.
        kernel: Number of taps of the window along each axis.
        strides: One for each axis; None means 1.
        pads: In ONNX's order, all begins and then all ends; None means 0; negative ones crop; only with NOTSET.
        dilations: One for each axis; None means 1.
        auto_pad: NOTSET, VALID, SAME_UPPER or SAME_LOWER.
        ceil_mode: Round the number of outputs up, while the last window starts inside the input or before it.

    Raises:
        ModelError: The attributes do not fit each other, or there is no output.
    """
    rank = len(sizes)
    strides = tuple(strides or (1,) * rank)
    dilations = tuple(dilations or (1,) * rank)
    pads = tuple(pads or (0,) * (2 * rank))
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise ModelError(
            f"kernel {tuple(kernel)}, strides {strides}, dilations {dilations} and pads {pads} do not fit "
            f"{rank} spatial axes; correct the node's attributes"
        )
    if auto_pad not in AUTO_PADS:
        raise ModelError(f"auto_pad {auto_pad!r} is unknown; use one of {', '.join(AUTO_PADS)}")
    found = []
    for i, size in enumerate(sizes):
        extent = (kernel[i] - 1) * dilations[i] + 1
        begin, end = pads[i], pads[rank + i]
        if auto_pad != "NOTSET":
            begin = end = 0
        if auto_pad.startswith("SAME"):
            begin, end = compute_same_pads(size, extent, strides[i], lower=auto_pad == "SAME_LOWER")
        span = size + begin + end - extent
        outputs = (-(-span // strides[i]) if ceil_mode else span // strides[i]) + 1
        if ceil_mode and (outputs - 1) * strides[i] >= size + begin:
            outputs -= 1
        if outputs < 1:
            raise ModelError(
                f"a window of {extent} positions does not fit in {size} positions padded by {begin} and {end}; "
                "check kernel_shape, dilations and pads against the input's shape"
            )
        found.append(WindowAxis(size, kernel[i], strides[i], dilations[i], begin, end, outputs))
    return tuple(found)
