"""Operands of a Resize: sizes, factors and modes, in the order of the arrays' axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    find_input,
    require_input,
)
from ptq.kernels.resize import OnnxSampling, ResizeAxis, resample_nearest


def read_sampling(site: Site) -> OnnxSampling:
    """Return ONNX's attributes with defaults."""
    coordinates = str(site.attrs.get("coordinate_transformation_mode", "half_pixel"))
    rounding = str(site.attrs.get("nearest_mode", "round_prefer_floor"))
    return OnnxSampling(coordinates, rounding if site.op.endswith("nearest") else None)


def _read_operand(site: Site, inputs: Inputs, name: str, position: int) -> NDArray[Any] | None:
    value = site.attrs.get(name)
    found = find_input(site, inputs, position) if value is None else np.asarray(value)
    return None if found is None or found.size == 0 else found.reshape(-1)


def resize_axes(site: Site, inputs: Inputs) -> list[ResizeAxis]:
    """Return each axis of the channels-last array with its size before and after.

    Raises:
        UnsupportedError: Neither sizes nor scales are given.
    """
    shape = require_input(site, inputs, 0).shape
    rank = len(shape)
    order = [0, *range(2, rank), 1] if rank > 2 else list(range(rank))
    axes = [int(a) % rank for a in site.attrs.get("axes", range(rank))]
    sizes, scales = (
        _read_operand(site, inputs, "sizes", 3),
        _read_operand(site, inputs, "scales", 2),
    )
    found = {}
    for index, onnx_axis in enumerate(axes):
        length = shape[order.index(onnx_axis)]
        if sizes is not None:
            out = int(sizes[index])
            found[onnx_axis] = ResizeAxis(length, out, float(np.float32(out) / np.float32(length)))
        elif scales is not None:
            factor = np.float32(scales[index])
            found[onnx_axis] = ResizeAxis(length, int(factor * np.float32(length)), float(factor))
        else:
            raise UnsupportedError("Resize has neither sizes nor scales; the node is incomplete")
    return [found.get(a, ResizeAxis(shape[p], shape[p], 1.0)) for p, a in enumerate(order)]


def resize_nearest(site: Site) -> Kernel:
    """Return the kernel of nearest-neighbour Resize with the positions of ONNX Runtime."""
    return _resample(site, read_sampling(site))


def _resize_with_exact_ties(site: Site) -> Kernel:
    return _resample(site, replace(read_sampling(site), tie_tolerance=0.0))


def _resample(site: Site, sampling: OnnxSampling) -> Kernel:
    return lambda inputs: resample_nearest(
        require_input(site, inputs, 0), resize_axes(site, inputs), sampling
    )


EXACT_TIES: Mapping[str, KernelMaker] = {"Resize nearest": _resize_with_exact_ties}
"""Of ONNX Runtime before 1.27."""
