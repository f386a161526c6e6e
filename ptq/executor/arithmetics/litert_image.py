"""LiteRT's resizing and regrouping of images: raw integers, channels last; input and output have one scale.

Resize is RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR if these take the same positions (`ptq.kernels.resize`).
SpaceToBatchND and BatchToSpaceND are LiteRT's operators under their own names: ONNX has none that equal them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import IntArray
from ptq.executor.arithmetics.litert_elementwise import require_same_scale
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    require_input,
)
from ptq.executor.arithmetics.resize import read_sampling, resize_axes
from ptq.kernels.resize import (
    LitertSampling,
    ResizeAxis,
    compute_litert_nearest_positions,
    find_litert_sampling,
    interpolate_like_litert,
)
from ptq.kernels.shape import move_batch_to_space, move_space_to_batch


def _read_image(
    site: Site, inputs: Inputs
) -> tuple[NDArray[Any], ResizeAxis, ResizeAxis, LitertSampling]:
    """Return the array with a height (1 if it has none), the axes of height and width, and LiteRT's sampling."""
    q, (batch, *image, depth) = require_input(site, inputs, 0), resize_axes(site, inputs)
    if len(image) == 1:
        q, image = q[:, None], [ResizeAxis(1, 1, 1.0), *image]
    # A LiteRT model states them. ONNX's float32 factors may round to the other side of a position.
    sampling = site.attrs.get("corners") or find_litert_sampling(read_sampling(site), image)
    if (
        len(image) != 2
        or batch.size != batch.output_size
        or depth.size != depth.output_size
        or sampling is None
    ):
        raise UnsupportedError(f"{site.op} of these axes and coordinates is not among LiteRT's")
    height, width = image
    return q, height, width, sampling


def make_image_sampler(
    sample: Callable[[IntArray, ResizeAxis, ResizeAxis, LitertSampling], IntArray],
) -> KernelMaker:
    """Return the maker of a Resize with LiteRT's positions and the given interpolation."""

    def make(site: Site) -> Kernel:
        def kernel(inputs: Inputs) -> NDArray[Any]:
            resized = sample(*_read_image(site, inputs))
            return resized.reshape(_compute_output_shape(site, inputs))

        return kernel

    return make


def _make_nearest(site: Site) -> Kernel:
    def kernel(inputs: Inputs) -> NDArray[Any]:
        q, height, width, sampling = _read_image(site, inputs)
        rows, columns = (
            compute_litert_nearest_positions(height, sampling),
            compute_litert_nearest_positions(width, sampling),
        )
        return q[:, rows[:, None], columns].reshape(_compute_output_shape(site, inputs))

    return kernel


def _compute_output_shape(site: Site, inputs: Inputs) -> tuple[int, ...]:
    return tuple(axis.output_size for axis in resize_axes(site, inputs))


def _make_space_to_batch(site: Site) -> Kernel:
    block, paddings = tuple(site.attrs["block"]), site.attrs["paddings"]
    zero_point = int(get_activation_qparams(site).zero_point)
    return lambda inputs: move_space_to_batch(
        require_input(site, inputs, 0), block, paddings, zero_point
    )


def _make_batch_to_space(site: Site) -> Kernel:
    block, crops = tuple(site.attrs["block"]), site.attrs["crops"]
    return lambda inputs: move_batch_to_space(require_input(site, inputs, 0), block, crops)


KERNELS: Mapping[str, KernelMaker] = {
    "BatchToSpaceND": require_same_scale(_make_batch_to_space),
    "Resize linear": require_same_scale(make_image_sampler(interpolate_like_litert)),
    "Resize nearest": require_same_scale(_make_nearest),
    "SpaceToBatchND": require_same_scale(_make_space_to_batch),
}
