"""A node as an arithmetic sees it: everything that is known before the data are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams

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
    output_index: int = 0


KernelMaker = Callable[[Site], Kernel]
"""Prepares the kernel of one node; raises UnsupportedError where the arithmetic cannot express it."""

Inputs = Sequence[NDArray[Any] | None]


def _require_8bit(site: Site, params: QuantParams | None, what: str) -> QuantParams:
    if params is None:
        raise UnsupportedError(f"{what} of {site.op} is not quantized; leave the node float")
    if params.qtype.bits != 8:
        raise UnsupportedError(
            f"{what} of {site.op} is {params.qtype.name}; this arithmetic takes int8 and uint8"
        )
    return params


def _require_per_tensor(site: Site, params: QuantParams, what: str) -> QuantParams:
    if params.axis is not None:
        raise UnsupportedError(
            f"{what} of {site.op} is quantized per channel; give it one scale and zero point"
        )
    return params


def activation_qparams(site: Site, index: int = 0) -> QuantParams:
    """Parameters of an 8-bit input with one scale.

    Raises:
        UnsupportedError: The input is not quantized, per channel, or of another width.
    """
    what = f"input {index}"
    params = site.inputs[index] if index < len(site.inputs) else None
    return _require_per_tensor(site, _require_8bit(site, params, what), what)


def weight_qparams(site: Site) -> QuantParams:
    """Parameters of input 1, an 8-bit weight, per tensor or per channel.

    Raises:
        UnsupportedError: It is not quantized, or of another width.
    """
    return _require_8bit(site, site.inputs[1] if len(site.inputs) > 1 else None, "weight")


def output_qparams(site: Site) -> QuantParams:
    """Parameters of the first output, 8-bit with one scale.

    Raises:
        UnsupportedError: The output is not quantized, per channel, or of another width.
    """
    return _require_per_tensor(site, _require_8bit(site, site.outputs[0], "output"), "output")


def scale_ratio(site: Site) -> float:
    """Return Sx / Sy in float64: the factor from units of input 0 to units of the output.

    Raises:
        UnsupportedError: One of them has no 8-bit parameters with one scale.
    """
    return float(activation_qparams(site).scale) / float(output_qparams(site).scale)


def product_scale_ratio(site: Site) -> NDArray[np.float64]:
    """Return Sx · Sw / Sy in float64: the factor from accumulators to units of the output.

    It is 0-d, or one value for each scale of the weight.

    Raises:
        UnsupportedError: One of them has no 8-bit parameters, or input 0 or the output has several scales.
    """
    product = activation_qparams(site).scale.astype(np.float64) * weight_qparams(site).scale
    return np.asarray(product / float(output_qparams(site).scale))


def output_bounds(site: Site) -> tuple[int, int]:
    """Lowest and highest integer of the output: its type's, narrowed by a fused activation."""
    qtype = output_qparams(site).qtype
    if site.clamp is None:
        return qtype.lo, qtype.hi
    return max(qtype.lo, site.clamp[0]), min(qtype.hi, site.clamp[1])


def constant_input(site: Site, index: int) -> NDArray[Any] | None:
    """The integers of a constant input, None where it is absent or arrives at run time."""
    return site.constants[index] if index < len(site.constants) else None


def find_input(site: Site, inputs: Inputs, index: int) -> NDArray[Any] | None:
    """An input at run time, whether it arrives or is constant; None where the node has none."""
    value = inputs[index] if index < len(inputs) else None
    return constant_input(site, index) if value is None else value


def require_input(site: Site, inputs: Inputs, index: int) -> NDArray[Any]:
    """An input at run time that the node cannot do without.

    Raises:
        UnsupportedError: It is absent.
    """
    value = find_input(site, inputs, index)
    if value is None:
        raise UnsupportedError(f"{site.op} has no input {index}; the node is incomplete")
    return value


def reduced_axes(site: Site, inputs: Inputs) -> tuple[int, ...] | None:
    """The axes that a reduction runs along, each once; None for all.

    That is also what no axes at all mean, unless an attribute says that nothing is reduced then.
    """
    given = site.attrs.get("axes")
    if given is None:
        given = find_input(site, inputs, 1)
    if given is None or np.size(given) == 0:
        return () if site.attrs.get("noop_with_empty_axes", 0) else None
    rank = require_input(site, inputs, 0).ndim
    return tuple(sorted({int(axis) % rank if rank else int(axis) for axis in np.atleast_1d(given)}))
