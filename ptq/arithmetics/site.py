"""A node as an arithmetic sees it: everything that is known before the data are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ptq.types import QuantParams

Kernel = Callable[[Sequence[NDArray[Any] | None]], NDArray[Any]]
"""Runs one node: all its inputs by position (None where absent) to one of its outputs."""


@dataclass(frozen=True, eq=False)
class Site:
    """One node of an integer program.

    Spatial tensors are channels last (N, spatial…, C), convolution weights O·spatial·I, and attributes that
    name axes (axis, axes, perm, pads of Pad) are given in the layout of the arrays that the kernel gets.
    ``pads`` of convolutions and pools keep ONNX's order: all begins, then all ends, spatial axes only.

    Attributes:
        op: ONNX operator type, e.g. ``Conv``.
        attrs: ONNX attributes, defaults left out; what newer opsets moved to inputs (axes, pads, min, max …)
            is here too.
        inputs: Quantization of each input; None where the input is absent or not quantized.
        constants: Integer value of each constant input, None for those that arrive at run time.
        outputs: Quantization of the output that the kernel gives; None where it is not quantized
            (indices, shapes).
        clamp: A fused activation's bounds in the output's integers, on top of its type's own.
        name: Name of the node.
        output: Position of that output among the node's; each has a kernel of its own.
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[QuantParams | None, ...]
    outputs: tuple[QuantParams | None, ...]
    constants: tuple[NDArray[Any] | None, ...] = field(default=())
    clamp: tuple[int, int] | None = None
    name: str = ""
    output: int = 0


Maker = Callable[[Site], Kernel]
"""Prepares the kernel of one node; raises UnsupportedError where the arithmetic cannot express it."""
