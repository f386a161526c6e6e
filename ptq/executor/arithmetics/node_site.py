"""A node as an arithmetic sees it: everything that is known before the data, and functions that read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams

Kernel = Callable[[Sequence[NDArray[Any] | None]], NDArray[Any]]
"""Runs one node: all its inputs by position (None if absent) to one of its outputs."""


FUSED_INTO = "fused_into"
"""Attribute of a clamp: the site of the operator that it is fused into; absent of one that stands alone."""


@dataclass(frozen=True, eq=False)
class Site:
    """One node of an integer program.

    Spatial tensors are channels last (N, spatial…, C), weights of convolutions are O·spatial·I. Attributes that name
    axes (axis, axes, perm, pads of Pad) count in the layout of the arrays that the kernel gets. ``pads`` of
    convolutions and pools are in ONNX's order: all begins, then all ends, spatial axes only.

    Attributes:
        op: ONNX operator type, such as ``Conv``.
        attrs: ONNX attributes without defaults. Operands that newer opsets have as inputs (axes, pads, min, max …)
            are here too.
        inputs: Parameters of each input; None if the input is absent or not quantized.
        outputs: Parameters of the output that the kernel returns; None if it is not quantized (indices, shapes,
            floats).
        constants: Integers of each constant input; None for inputs that are computed.
        clamp: Bounds of a fused activation, in integers of the output, in addition to those of its type.
        name: Name of the node.
        output_index: Position of that output among those of the node; each output has its own kernel.
        bits: Bits of its activations.
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[QuantParams | None, ...]
    outputs: tuple[QuantParams | None, ...]
    constants: tuple[NDArray[Any] | None, ...] = field(default=())
    clamp: tuple[int, int] | None = None
    name: str = ""
    output_index: int = 0
    bits: int = 8


KernelMaker = Callable[[Site], Kernel]
"""Prepares the kernel of one node; raises UnsupportedError if the arithmetic cannot express it."""

Inputs = Sequence[NDArray[Any] | None]


def _require_bits(
    site: Site, params: QuantParams | None, what: str, bits: tuple[int, ...]
) -> QuantParams:
    if params is None:
        raise UnsupportedError(f"{what} of {site.op} is not quantized; leave the node float")
    if params.qtype.bits not in bits:
        kinds = " and ".join(f"int{n} and uint{n}" for n in bits)
        raise UnsupportedError(
            f"{what} of {site.op} is {params.qtype.name}; this arithmetic takes {kinds}"
        )
    return params


def _require_per_tensor(site: Site, params: QuantParams, what: str) -> QuantParams:
    if params.axis is not None:
        raise UnsupportedError(
            f"{what} of {site.op} is quantized per channel; give it one scale and zero point"
        )
    return params


def get_activation_qparams(site: Site, index: int = 0) -> QuantParams:
    """Return the parameters of an input with one scale and the bits of the site.

    Raises:
        UnsupportedError: The input is not quantized, has per-channel scales, or has other bits.
    """
    what = f"input {index}"
    params = site.inputs[index] if index < len(site.inputs) else None
    return _require_per_tensor(site, _require_bits(site, params, what, (site.bits,)), what)


def get_weight_qparams(site: Site) -> QuantParams:
    """Return the parameters of input 1, an 8-bit weight, per tensor or per channel; or a wide activation.

    Raises:
        UnsupportedError: It is not quantized, or has other bits.
    """
    params = site.inputs[1] if len(site.inputs) > 1 else None
    return _require_bits(site, params, "weight", tuple({8: None, site.bits: None}))


def get_output_qparams(site: Site) -> QuantParams:
    """Return the parameters of the output, with one scale and the bits of the site.

    Raises:
        UnsupportedError: The output is not quantized, has per-channel scales, or has other bits.
    """
    params = _require_bits(site, site.outputs[0], "output", (site.bits,))
    return _require_per_tensor(site, params, "output")


def compute_scale_ratio(site: Site) -> float:
    """Return Sx / Sy in float64: the factor from units of input 0 to units of the output.

    Raises:
        UnsupportedError: One of them has no parameters with one scale.
    """
    return float(get_activation_qparams(site).scale) / float(get_output_qparams(site).scale)


def compute_product_scale_ratio(site: Site) -> NDArray[np.float64]:
    """Return Sx · Sw / Sy in float64: the factor from accumulators to units of the output.

    It is 0-d, or one value for each scale of the weight.

    Raises:
        UnsupportedError: One of them has no parameters, or input 0 or the output has several scales.
    """
    product = get_activation_qparams(site).scale.astype(np.float64) * get_weight_qparams(site).scale
    return np.asarray(product / float(get_output_qparams(site).scale))


def get_output_bounds(site: Site) -> tuple[int, int]:
    """Return the lowest and the highest integer of the output: its type's, narrowed by a fused activation."""
    qtype = get_output_qparams(site).qtype
    if site.clamp is None:
        return qtype.lo, qtype.hi
    return max(qtype.lo, site.clamp[0]), min(qtype.hi, site.clamp[1])


def get_constant_input(site: Site, index: int) -> NDArray[Any] | None:
    """Return the integers of a constant input; None if it is absent or computed at run time."""
    return site.constants[index] if index < len(site.constants) else None


def find_input(site: Site, inputs: Inputs, index: int) -> NDArray[Any] | None:
    """Return an input at run time, constant or computed; None if the node has none."""
    value = inputs[index] if index < len(inputs) else None
    return get_constant_input(site, index) if value is None else value


def require_input(site: Site, inputs: Inputs, index: int) -> NDArray[Any]:
    """Return a required input at run time.

    Raises:
        UnsupportedError: It is absent.
    """
    value = find_input(site, inputs, index)
    if value is None:
        raise UnsupportedError(f"{site.op} has no input {index}; the node is incomplete")
    return value


def get_reduced_axes(site: Site, inputs: Inputs) -> tuple[int, ...] | None:
    """Return the axes that a reduction runs along, each once; None for all axes.

    No axes mean all axes, unless the attribute ``noop_with_empty_axes`` says that nothing is reduced.
    """
    given = site.attrs.get("axes")
    if given is None:
        given = find_input(site, inputs, 1)
    if given is None or np.size(given) == 0:
        return () if site.attrs.get("noop_with_empty_axes", 0) else None
    rank = require_input(site, inputs, 0).ndim
    return tuple(sorted({int(axis) % rank if rank else int(axis) for axis in np.atleast_1d(given)}))
