"""Exact accumulators of a transposed convolution.

Every input position i adds its products to the outputs i·stride − begin + t·dilation, one for each tap t:

    acc[n, p…, m] = bias[m] + Σ (w[m, t…, c] − w_zero_point)·(x[n, i…, c] − zero_point)   over all i, t that meet p

One matrix product computes all taps; then each tap is added at its output positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.same_padding import split_same_pads
from ptq.core.types import IntArray, QType
from ptq.kernels import exact_blas, window
from ptq.kernels.accumulate import OutputStage
from ptq.kernels.requantizer import Requantizer
from ptq.kernels.thread_pool import TiledOutput, get_scratch_buffer, run_tiles


def prepare_transposed_convolution(
    w: IntArray,
    bias: NDArray[np.int32] | None,
    *,
    x_qtype: QType,
    x_zero_point: int,
    w_zero_point: IntArray | int = 0,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> Callable[[IntArray, Requantizer], IntArray]:
    """Prepare a transposed convolution (ONNX ConvTranspose).

    Args:
        w: Shape (O, spatial…, C / group), integers.
        bias: Shape (O,), in units of the accumulator, or None.
        x_qtype: Type of x, which has shape (N, spatial…, C).
        x_zero_point: Zero point of x.
        w_zero_point: One number, or one for each output channel.
        strides: One for each spatial axis; None means 1.
        pads: Positions that are cut off the full output, in ONNX's order; None means 0.
        dilations: One for each spatial axis; None means 1.
        group: Number of groups of the input and output channels.
        auto_pad: NOTSET, VALID, SAME_UPPER or SAME_LOWER.
        output_padding: Positions added at the end of each axis; None means 0.
        output_shape: Spatial sizes of the output; the pads follow from them.

    Raises:
        ModelError: Shapes and attributes do not fit each other.
    """
    outputs, *kernel, inner = w.shape
    rank, taps = len(kernel), prod(kernel)
    if outputs % group:
        raise ModelError(
            f"{outputs} output channels do not divide into {group} groups; correct the node"
        )
    each = outputs // group
    stride = tuple(strides or (1,) * rank)
    dilation = tuple(dilations or (1,) * rank)
    extra = tuple(output_padding or (0,) * rank)
    wide = w.astype(np.int64) - np.asarray(w_zero_point, np.int64).reshape(
        (-1,) + (1,) * (rank + 1)
    )
    # Positions at the border read fewer weights, so the offset must be the zero point itself.
    plan = exact_blas.plan_accumulation(
        wide.reshape(outputs, -1).T, bias, x_qtype.dtype, x_zero_point, centred=True
    )
    output_stage = OutputStage(plan)
    packed = [
        exact_blas.pack(
            wide[g * each : (g + 1) * each]
            .reshape(each, taps, inner)
            .transpose(2, 1, 0)
            .reshape(inner, -1),
            plan.lo,
            plan.hi,
        )
        for g in range(group)
    ]
    product_type = np.dtype(np.float32 if all(p.exact for p in packed) else np.int32)

    def convolve(x: IntArray, requantize: Requantizer) -> IntArray:
        window.check_channels(x, group * inner)
        sizes = x.shape[1:-1]
        full = tuple(
            (n - 1) * s + (k - 1) * d + 1 + e
            for n, s, k, d, e in zip(sizes, stride, kernel, dilation, extra, strict=True)
        )
        spans = _compute_kept_spans(sizes, full, stride, pads, auto_pad, output_shape)
        out = TiledOutput((len(x), *(last - first for first, last in spans), outputs))

        def tile(n: int) -> None:
            left = get_scratch_buffer("left", x.shape[1:])
            np.subtract(x[n], np.float32(plan.offset), out=left, dtype=np.float32)
            left = left.reshape(-1, group * inner)
            canvas = get_scratch_buffer(
                "canvas",
                (*(max(f, c[1]) for f, c in zip(full, spans, strict=True)), outputs),
                output_stage.dtype,
            )
            canvas[...] = 0
            part = get_scratch_buffer("taps", (len(left), taps * each), product_type)
            for g in range(group):
                exact_blas.multiply_with_blas(left[:, g * inner : (g + 1) * inner], packed[g], part)
                for number, tap in enumerate(np.ndindex(*kernel)):
                    where = tuple(
                        slice(t * d, t * d + (m - 1) * s + 1, s)
                        for t, d, m, s in zip(tap, dilation, sizes, stride, strict=True)
                    )
                    target = canvas[(*where, slice(g * each, (g + 1) * each))]
                    added = part[:, number * each : (number + 1) * each].reshape(*sizes, each)
                    np.add(target, added.astype(output_stage.dtype, copy=False), out=target)
            kept = canvas[tuple(slice(first, last) for first, last in spans)]
            outputs_of_tile = output_stage.apply(
                np.ascontiguousarray(kept).reshape(-1, outputs), requantize
            )
            out[n] = outputs_of_tile.reshape(kept.shape)

        work = exact_blas.estimate_nanoseconds(prod(x.shape[:-1]), inner, taps * outputs)
        run_tiles(tile, len(x), work)
        return out.array

    return convolve


def _compute_kept_spans(
    sizes: Sequence[int],
    full: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
    output_shape: Sequence[int] | None,
) -> list[tuple[int, int]]:
    """Return the span [first, last) of the full output that is kept along each axis."""
    if auto_pad not in window.AUTO_PADS:
        raise ModelError(
            f"auto_pad {auto_pad!r} is unknown; use one of {', '.join(window.AUTO_PADS)}"
        )
    rank = len(sizes)
    if output_shape is None and auto_pad.startswith("SAME"):
        # At most the full output: ONNX Runtime's padding is never negative.
        output_shape = [min(n * s, f) for n, s, f in zip(sizes, strides, full, strict=True)]
    if output_shape is not None:
        wanted = tuple(output_shape)[-rank:]
        first = [max(f - n, 0) for f, n in zip(full, wanted, strict=True)]
        first = [split_same_pads(t, lower=auto_pad != "SAME_UPPER")[0] for t in first]
        return [(f, f + n) for f, n in zip(first, wanted, strict=True)]
    ends = tuple(pads or (0,) * 2 * rank) if auto_pad == "NOTSET" else (0,) * 2 * rank
    kept = [(ends[i], full[i] - ends[rank + i]) for i in range(rank)]
    if any(last <= first for first, last in kept):
        raise ModelError(
            f"pads {ends} remove the whole output of sizes {tuple(full)}; correct the node's pads"
        )
    return kept
