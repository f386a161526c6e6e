"""The image in a feed as a small picture, for reports: normalization is taken back, the size is bounded."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ptq.data.preparation import Preparation
from ptq.data.preprocessing.preprocess import Preprocess

MAX_PIXELS = 192
"""Height and width of a picture."""
_MIN_PIXELS = 4
_LOSSLESS_PIXELS = 64
_QUALITY = 82
_GOLDEN = 0.6180339887
"""Step of the hue from class to class: neighbouring numbers have colours far apart."""


def draw_thumbnail(feed: Mapping[str, NDArray[Any]], preparation: Preparation | None) -> bytes:
    """A PNG or JPEG file of the first input that is one image; no bytes if there is none.

    Args:
        feed: Arrays by input name. An image has the shape [1, C, H, W] or [1, H, W, C] with 1 or 3 channels.
        preparation: How files became arrays; without it the values are spread over all gray levels.
    """
    for array in feed.values():
        pixels = _find_pixels(array)
        if pixels is not None:
            return _encode(_to_bytes(pixels, preparation), preparation)
    return b""


def draw_mask(labels: NDArray[np.int64], marked: NDArray[np.bool_]) -> bytes:
    """A PNG file of classes of pixels, to lie over the picture of `draw_thumbnail`.

    Args:
        labels: Class of each pixel, shape (height, width). Class 0 is transparent, others are half-transparent.
        marked: Pixels that are opaque, of the same shape; those of class 0 are gray then.
    """
    step = -(-max(labels.shape) // MAX_PIXELS)
    labels, marked = labels[::step, ::step], marked[::step, ::step]
    known = range(int(labels.max(initial=0)) + 1)
    table = np.array([colorsys.hsv_to_rgb(k * _GOLDEN % 1.0, 0.9, 1.0) for k in known])
    table[0] = 0.5
    colours = table[labels]
    alpha = np.where(marked, 1.0, np.where(labels == 0, 0.0, 0.45))
    pixels = np.rint(255 * np.concatenate([colours, alpha[..., None]], axis=2)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(stream, "PNG", optimize=True)
    return stream.getvalue()


def _find_pixels(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """The image with channels last; None if the array is none."""
    image = array[0] if array.ndim == 4 and array.shape[0] == 1 else array
    if image.ndim != 3 or image.dtype.kind not in "fiu":
        return None
    if image.shape[0] in (1, 3):
        image = np.moveaxis(image, 0, -1)
    if image.shape[-1] not in (1, 3) or min(image.shape[:2]) < _MIN_PIXELS:
        return None
    values = np.asarray(image, np.float64)
    return values if np.isfinite(values).all() else None


def _to_bytes(pixels: NDArray[np.float64], preparation: Preparation | None) -> NDArray[np.uint8]:
    if isinstance(preparation, Preprocess) and preparation.scale:
        std = 1.0 if preparation.std is None else np.asarray(preparation.std)
        mean = 0.0 if preparation.mean is None else np.asarray(preparation.mean)
        pixels = (pixels * std + mean) / preparation.scale
    elif pixels.min() < 0 or not 1 < pixels.max() <= 255:
        span = float(np.ptp(pixels)) or 1.0
        pixels = (pixels - pixels.min()) * (255 / span)
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def _encode(pixels: NDArray[np.uint8], preparation: Preparation | None) -> bytes:
    if isinstance(preparation, Preprocess) and preparation.channels == "BGR":
        pixels = pixels[..., ::-1]
    image = Image.fromarray(
        np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    )
    image.thumbnail((MAX_PIXELS, MAX_PIXELS))
    stream = io.BytesIO()
    if max(image.size) <= _LOSSLESS_PIXELS:
        image.save(stream, "PNG", optimize=True)
    else:
        image.save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()
