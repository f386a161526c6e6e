"""Images as values of a model input: from a file, a Pillow image, or an array of pixels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ptq.core.errors import DataError
from ptq.data.formats.decode import (
    MAX_PIXELS,
    build_pixel_table,
    convert_image,
    convert_pixels,
    decode,
    resize_and_crop,
)
from ptq.data.input_spec import InputSpec, cast_to_input
from ptq.data.preprocessing.preprocess import Preprocess

ImageItem = str | os.PathLike[str] | Image.Image | NDArray[np.uint8]
"""A path, a Pillow image, or pixels."""


def is_image(item: Any) -> bool:
    """Whether an object is a path or a Pillow image. An array is an image only if the user says so."""
    return isinstance(item, (str, os.PathLike, Image.Image))


class ImageReader:
    """Applies one preprocessing to images of every kind."""

    def __init__(self, spec: InputSpec, preprocess: Preprocess) -> None:
        """Complete the preprocessing; raise UsageError if the input does not take images."""
        self._spec = spec
        self.preprocess = preprocess.resolved(spec)
        self._table = build_pixel_table(self.preprocess, spec.dtype)

    @property
    def has_batch_axis(self) -> bool:
        """Whether the input has a batch axis."""
        return len(self._spec.shape) == 4

    def read(self, item: ImageItem, where: str) -> NDArray[Any]:
        """Values of the input, with a batch axis of 1 if the input has one.

        Args:
            item: The image. Pixels are uint8 of shape H·W, H·W·C or C·H·W, with 1, 3 or 4 channels.
            where: Name of the image in errors.

        Raises:
            DataError: The image cannot be read, or its pixels have no fixed range.
        """
        channels = self.preprocess.channels or "RGB"
        if isinstance(item, (str, os.PathLike)):
            image = decode(Path(item), channels)
        else:
            opened = (
                item
                if isinstance(item, Image.Image)
                else Image.fromarray(order_pixels(item, where))
            )
            image = _convert(opened, channels, where)
        array = convert_pixels(
            resize_and_crop(image, self.preprocess, where), self.preprocess, self._table
        )
        if self.has_batch_axis:
            array = array[np.newaxis]
        return cast_to_input(self._spec, array, where)


def _convert(opened: Image.Image, channels: str, where: str) -> Image.Image:
    if opened.width * opened.height > MAX_PIXELS:
        raise DataError(f"{where}: the image is too large; the limit is {MAX_PIXELS} pixels")
    try:
        return convert_image(opened, channels, where)
    # A Pillow image may be opened lazily, and on damaged files its decoders raise SyntaxError, KeyError and more.
    except (OSError, ValueError, SyntaxError, LookupError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{where}: cannot read the image: {reason}") from error


def order_pixels(pixels: NDArray[Any], where: str) -> NDArray[np.uint8]:
    """Pixels of one image with channels last, as Pillow takes them; gray without a channel axis.

    Raises:
        DataError: They are not uint8, or no axis can be that of the channels.
    """
    if pixels.dtype != np.uint8:
        raise DataError(
            f"{where}: has type {pixels.dtype}; preprocessing applies to paths, Pillow images and uint8 "
            "pixels of 0 to 255; give these, or prepared arrays without preprocessing"
        )
    if pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4) and pixels.shape[0] in (1, 3, 4):
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    colored = pixels.ndim == 3 and pixels.shape[2] in (3, 4)
    if not (colored or pixels.ndim == 2) or 0 in pixels.shape:
        raise DataError(
            f"{where}: pixels of shape {list(pixels.shape)} are no image; give height × width, or height × width × "
            "channels with 1, 3 or 4 channels"
        )
    return np.ascontiguousarray(pixels)
