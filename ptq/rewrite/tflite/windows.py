"""Windows of convolutions and pools: LiteRT's padding SAME or VALID, or elements to pad before the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ptq.core.errors import UnsupportedError
from ptq.core.same_padding import compute_same_pads, split_same_pads


@dataclass(frozen=True)
class Window:
    """A window as LiteRT says it.

    Attributes:
        padding: ``SAME`` or ``VALID``.
        pads: Elements to pad before and after each spatial axis, by an operator of their own; empty for none.
        kernel: Its size along each spatial axis.
        strides: Its strides.
        dilations: Its dilations.
    """

    padding: str
    pads: tuple[tuple[int, int], ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


def read_window(
    attrs: Mapping[str, Any], kernel: Sequence[int], image: Sequence[int], output: Sequence[int]
) -> Window:
    """Read the window of a convolution or pool.

    Args:
        attrs: Its ONNX attributes.
        kernel: Its size along each spatial axis.
        image: Spatial shape of the input.
        output: Spatial shape of the output, from which the padding of a last, partial window follows.

    Raises:
        UnsupportedError: Its padding is negative.
    """
    rank = len(kernel)
    strides = tuple(int(s) for s in attrs.get("strides", (1,) * rank))
    dilations = tuple(int(d) for d in attrs.get("dilations", (1,) * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    begins = _compute_begins(attrs, rank, strides, reach, image, output)
    needed = [
        (begin, max((out - 1) * s + r - size - begin, 0))
        for begin, out, s, r, size in zip(begins, output, strides, reach, image, strict=True)
    ]
    if min(begins) < 0:
        raise UnsupportedError("negative padding has no form in LiteRT; crop with a Slice")
    same = [compute_same_pads(size, r, s) for size, r, s in zip(image, reach, strides, strict=True)]
    kept = tuple(kernel), strides, dilations
    if all(pads == (0, 0) for pads in needed):
        return Window("VALID", (), *kept)
    full = all(-(-size // s) == out for size, s, out in zip(image, strides, output, strict=True))
    if full and needed == same:
        return Window("SAME", (), *kept)
    return Window("VALID", tuple(needed), *kept)


@dataclass(frozen=True)
class Averages:
    """The windows of an AveragePool as LiteRT says them.

    Attributes:
        window: The windows of the image, padded by its pads.
        counts: By spatial axis, how many elements each window averages; None if these are those that LiteRT counts.
    """

    window: Window
    counts: tuple[tuple[int, ...], ...] | None


def read_averages(
    attrs: Mapping[str, Any], kernel: Sequence[int], image: Sequence[int], output: Sequence[int]
) -> Averages:
    """Read the windows of an AveragePool.

    LiteRT counts the elements of the image, as ONNX does without count_include_pad. With it, ONNX counts the pads
    too, but not what ceil_mode adds behind them.

    Args:
        attrs: Its ONNX attributes.
        kernel: Its size along each spatial axis.
        image: Spatial shape of the input.
        output: Spatial shape of the output.

    Raises:
        UnsupportedError: Its padding is negative.
    """
    plain = read_window(attrs, kernel, image, output)
    begins = _compute_begins(attrs, len(kernel), plain.strides, kernel, image, output)
    ends = _compute_ends(attrs, begins, plain, image, output)
    counted = [(0, 0)] * len(kernel)
    if attrs.get("count_include_pad", 0):
        counted = list(zip(begins, ends, strict=True))
    if any(pads != (0, 0) for pads in counted):
        grown = [size + sum(pads) for size, pads in zip(image, counted, strict=True)]
        behind = read_window({"strides": plain.strides}, kernel, grown, output)
        if not behind.pads:
            return Averages(replace(behind, pads=tuple(counted)), None)
    elif not plain.pads:
        return Averages(plain, None)
    needed = tuple(
        (begin, max((out - 1) * s + k - size - begin, 0))
        for begin, out, s, k, size in zip(begins, output, plain.strides, kernel, image, strict=True)
    )
    counts = tuple(
        tuple(
            min(at + k, size + after) - max(at, -before) for at in range(-begin, out * s - begin, s)
        )
        for begin, (before, after), out, s, k, size in zip(
            begins, counted, output, plain.strides, kernel, image, strict=True
        )
    )
    return Averages(replace(plain, padding="VALID", pads=needed), counts)


def _compute_ends(
    attrs: Mapping[str, Any],
    begins: Sequence[int],
    window: Window,
    image: Sequence[int],
    output: Sequence[int],
) -> list[int]:
    """Padding behind each axis, without what ceil_mode adds."""
    auto = _get_auto_pad(attrs)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        spans = zip(output, window.strides, window.kernel, image, begins, strict=True)
        return [max((out - 1) * s + k - size - begin, 0) for out, s, k, size, begin in spans]
    if auto == "VALID":
        return [0] * len(begins)
    return [int(p) for p in attrs.get("pads", (0,) * 2 * len(begins))[len(begins) :]]


def _compute_begins(
    attrs: Mapping[str, Any],
    rank: int,
    strides: Sequence[int],
    reach: Sequence[int],
    image: Sequence[int],
    output: Sequence[int],
) -> list[int]:
    """Padding before each axis."""
    auto = _get_auto_pad(attrs)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((out - 1) * s + r - size, 0)
            for out, s, r, size in zip(output, strides, reach, image, strict=True)
        ]
        return [split_same_pads(t, lower=auto == "SAME_LOWER")[0] for t in totals]
    if auto == "VALID":
        return [0] * rank
    return [int(p) for p in attrs.get("pads", (0,) * 2 * rank)[:rank]]


def read_transposed_begins(
    attrs: Mapping[str, Any], kernel: Sequence[int], image: Sequence[int], output: Sequence[int]
) -> list[int]:
    """What a ConvTranspose cuts off before each spatial axis of its full result.

    With output_shape, or auto_pad SAME, it follows from the lengths: half of what is too much, the larger half first
    except for SAME_UPPER.

    Args:
        attrs: Its ONNX attributes.
        kernel: Its size along each spatial axis.
        image: Spatial shape of the input.
        output: Spatial shape of the output.

    Raises:
        UnsupportedError: Its padding is negative.
    """
    rank, auto = len(kernel), _get_auto_pad(attrs)
    strides, added = attrs.get("strides", (1,) * rank), attrs.get("output_padding", (0,) * rank)
    wanted = output
    if "output_shape" not in attrs:
        if not auto.startswith("SAME"):
            begins = [0] * rank if auto == "VALID" else [*attrs.get("pads", (0,) * 2 * rank)][:rank]
            if min(begins) < 0:
                raise UnsupportedError("negative padding has no form in LiteRT; pad with a Pad")
            return begins
        wanted = [size * s for size, s in zip(image, strides, strict=True)]
    totals = [
        max((size - 1) * s + a + k - out, 0)
        for size, s, a, k, out in zip(image, strides, added, kernel, wanted, strict=True)
    ]
    return [split_same_pads(t, lower=auto != "SAME_UPPER")[0] for t in totals]


def _get_auto_pad(attrs: Mapping[str, Any]) -> str:
    auto = attrs.get("auto_pad", "NOTSET")
    return auto.decode() if isinstance(auto, bytes) else str(auto)
