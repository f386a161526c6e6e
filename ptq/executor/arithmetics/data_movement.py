"""Data movement: operators whose output holds integers of their inputs. The kernels are those of every arithmetic.

None of them reads a scale. An operand that newer opsets have as an input is an attribute of the site, or is computed
at run time: the int64 shape that a subgraph of Shape, Gather and Concat computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.same_padding import compute_same_pads
from ptq.executor.arithmetics import min_max
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    find_input,
    require_input,
)
from ptq.executor.arithmetics.resize import resize_nearest
from ptq.kernels.pool import compute_max_pool
from ptq.kernels.shape import (
    flatten,
    move_depth_to_space,
    move_space_to_depth,
    pad,
    reshape,
    slice_axes,
    split_part,
)
from ptq.kernels.window import WindowAxis, build_window_axes

Integers = tuple[int, ...]


def _make_integer_reader(
    site: Site, name: str, position: int
) -> Callable[[Inputs], Integers | None]:
    """Return what reads an operand of integers from its attribute or its input; it gives None if absent."""
    given = site.attrs.get(name)
    if given is not None:
        fixed = tuple(int(value) for value in np.ravel(given))
        return lambda inputs: fixed

    def arriving(inputs: Inputs) -> Integers | None:
        value = find_input(site, inputs, position)
        return None if value is None else tuple(int(v) for v in np.ravel(value))

    return arriving


def _make_required_reader(site: Site, name: str, position: int) -> Callable[[Inputs], Integers]:
    read = _make_integer_reader(site, name, position)

    def arriving(inputs: Inputs) -> Integers:
        value = read(inputs)
        if value is None:
            raise UnsupportedError(f"{site.op} has no {name}; the node is incomplete")
        return value

    return arriving


def _make_reshape(site: Site) -> Kernel:
    shape, allow_zero = (
        _make_required_reader(site, "shape", 1),
        bool(site.attrs.get("allowzero", 0)),
    )
    return lambda inputs: reshape(require_input(site, inputs, 0), shape(inputs), allow_zero)


def _make_flatten(site: Site) -> Kernel:
    axis = int(site.attrs.get("axis", 1))
    return lambda inputs: flatten(require_input(site, inputs, 0), axis)


def _make_squeeze(site: Site) -> Kernel:
    axes = _make_integer_reader(site, "axes", 1)
    return lambda inputs: np.squeeze(require_input(site, inputs, 0), axes(inputs))


def _make_unsqueeze(site: Site) -> Kernel:
    axes = _make_required_reader(site, "axes", 1)
    return lambda inputs: np.expand_dims(require_input(site, inputs, 0), axes(inputs))


def _make_transpose(site: Site) -> Kernel:
    perm = site.attrs.get("perm")
    return lambda inputs: np.ascontiguousarray(np.transpose(require_input(site, inputs, 0), perm))


def _make_concat(site: Site) -> Kernel:
    axis, count = int(site.attrs["axis"]), len(site.inputs)
    return lambda inputs: np.concatenate(
        [require_input(site, inputs, i) for i in range(count)], axis
    )


def _make_gather(site: Site) -> Kernel:
    axis = int(site.attrs.get("axis", 0))
    return lambda inputs: np.take(
        require_input(site, inputs, 0), require_input(site, inputs, 1).astype(np.intp), axis
    )


def _make_slice(site: Site) -> Kernel:
    starts, ends = _make_required_reader(site, "starts", 1), _make_required_reader(site, "ends", 2)
    axes, steps = _make_integer_reader(site, "axes", 3), _make_integer_reader(site, "steps", 4)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x = require_input(site, inputs, 0)
        return slice_axes(x, starts(inputs), ends(inputs), axes(inputs), steps(inputs))

    return kernel


def _make_pad(site: Site) -> Kernel:
    """Pad with the real number 0, unless ``value`` (a float) or input 2 (an integer) gives another value."""
    pads, axes = _make_required_reader(site, "pads", 1), _make_integer_reader(site, "axes", 3)
    mode = str(site.attrs.get("mode", "constant"))
    params = site.inputs[0]
    real = float(site.attrs.get("value", 0.0))
    filling = int(real) if params is None else int(params.quantize(np.float32(real)))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        given = find_input(site, inputs, 2)
        value = filling if given is None or "value" in site.attrs else int(given.reshape(()))
        return pad(require_input(site, inputs, 0), pads(inputs), axes(inputs), mode, value)

    return kernel


def _make_expand(site: Site) -> Kernel:
    shape = _make_required_reader(site, "shape", 1)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x = require_input(site, inputs, 0)
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, shape(inputs))).copy()

    return kernel


def _make_shape(site: Site) -> Kernel:
    start, end = int(site.attrs.get("start", 0)), site.attrs.get("end")
    return lambda inputs: np.array(require_input(site, inputs, 0).shape[start:end], np.int64)


def _make_tile(site: Site) -> Kernel:
    repeats = _make_required_reader(site, "repeats", 1)
    return lambda inputs: np.tile(require_input(site, inputs, 0), repeats(inputs))


def _make_split(site: Site) -> Kernel:
    """Return one output: of the given sizes, or of equal sizes of which the last may be smaller."""
    axis, sizes = int(site.attrs.get("axis", 0)), _make_integer_reader(site, "split", 1)
    count = int(site.attrs["num_outputs"])

    def kernel(inputs: Inputs) -> NDArray[Any]:
        return split_part(
            require_input(site, inputs, 0), axis, sizes(inputs), count, site.output_index
        )

    return kernel


def _make_identity(site: Site) -> Kernel:
    return lambda inputs: require_input(site, inputs, 0)


def _make_depth_to_space(site: Site) -> Kernel:
    block, mode = int(site.attrs["blocksize"]), str(site.attrs.get("mode", "DCR"))
    return lambda inputs: move_depth_to_space(require_input(site, inputs, 0), block, mode)


def _make_space_to_depth(site: Site) -> Kernel:
    block = int(site.attrs["blocksize"])
    return lambda inputs: move_space_to_depth(require_input(site, inputs, 0), block)


def _make_max_pool(site: Site) -> Kernel:
    return _make_max_pool_by(build_onnxruntime_axes, site)


def _make_litert_max_pool(site: Site) -> Kernel:
    """LiteRT has no dilated pools, and its pads of SAME are never below 0."""
    dilated = set(pool_window(site)["dilations"]) != {1}
    return _make_max_pool_by(build_onnxruntime_axes if dilated else build_window_axes, site)


def _make_max_pool_by(build: Callable[..., tuple[WindowAxis, ...]], site: Site) -> Kernel:
    window = pool_window(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        return compute_max_pool(q, build(q.shape[1:-1], **window))

    return kernel


def pool_window(site: Site) -> dict[str, Any]:
    """Return the window of a pool, with ONNX's defaults, as `build_window_axes` takes it."""
    kernel = tuple(site.attrs["kernel_shape"])
    rank = len(kernel)
    return {
        "kernel": kernel,
        "strides": tuple(site.attrs.get("strides", (1,) * rank)),
        "pads": tuple(site.attrs.get("pads", (0,) * 2 * rank)),
        "dilations": tuple(site.attrs.get("dilations", (1,) * rank)),
        "auto_pad": site.attrs.get("auto_pad", "NOTSET"),
        "ceil_mode": site.attrs.get("ceil_mode", 0) == 1,
    }


def build_onnxruntime_axes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    auto_pad: str,
    ceil_mode: bool,
) -> tuple[WindowAxis, ...]:
    """Return the windows of a pool as ONNX Runtime places them: `build_window_axes` with its own rule for SAME.

    Dilation does not count there, and of the positions that strides skip, half come before the first window. A window
    that exceeds the image by less than a stride is one output: the runtime's division truncates toward zero.
    """
    if auto_pad.startswith("SAME"):
        lower, begins, ends = auto_pad == "SAME_LOWER", [], []
        for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
            begin, end = compute_same_pads(size, k, stride, lower=lower, may_crop=True)
            missing = (k - 1) * dilation + 1 - (size + begin + end)
            begins.append(begin)
            ends.append(end + missing if 0 < missing < stride else end)
        auto_pad, pads = "NOTSET", begins + ends
    return build_window_axes(
        sizes,
        kernel,
        strides=strides,
        pads=pads,
        dilations=dilations,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )


DATA_MOVEMENT_OPS: Mapping[str, KernelMaker] = {
    **min_max.REDUCTION_OPS,
    "DepthToSpace": _make_depth_to_space,
    "Expand": _make_expand,
    "Flatten": _make_flatten,
    "Gather": _make_gather,
    "Identity": _make_identity,
    "MaxPool": _make_max_pool,
    "Pad": _make_pad,
    "Reshape": _make_reshape,
    "Resize nearest": resize_nearest,
    "Slice": _make_slice,
    "SpaceToDepth": _make_space_to_depth,
    "Split": _make_split,
    "Squeeze": _make_squeeze,
    "Tile": _make_tile,
    "Transpose": _make_transpose,
    "Unsqueeze": _make_unsqueeze,
}
"""Operators whose output holds integers of input 0; both sides must have one scale and zero point."""

LITERT_DATA_MOVEMENT_OPS: Mapping[str, KernelMaker] = {
    **DATA_MOVEMENT_OPS,
    "MaxPool": _make_litert_max_pool,
}
"""The same operators as LiteRT computes them."""

INDEX_OPS: Mapping[str, KernelMaker] = {**min_max.ARG_REDUCTION_OPS, "Shape": _make_shape}
"""Operators whose output is not quantized at all."""

MULTI_INPUT_OPS: Mapping[str, KernelMaker] = {**min_max.SELECTION_OPS, "Concat": _make_concat}
"""Operators whose output holds integers of several inputs, which must have the output's scale and zero point."""
