"""Pixels of an image file, and resizing and cropping.

Only the formats in `FORMATS` are read. EXIF orientation is applied, an animation gives its first frame, and alpha is
dropped (not composited). CMYK and palettes are converted, and 16-bit gray is scaled from 0 … 65535 to 0 … 255. The
size in the header is checked before decoding.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, TiffImagePlugin, UnidentifiedImageError

from ptq.core import files
from ptq.core.errors import DataError
from ptq.data.formats.warning_filters import separate_filters
from ptq.data.preprocessing.placement import place_image
from ptq.data.preprocessing.preprocess import DEFAULT_INTERPOLATION, Preprocess

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")

MAX_PIXELS = 89_478_485
"""Pillow's own bound, 256 MB in RGB. It is checked here too, because an application may disable Pillow's check."""
_TURNED = (5, 6, 7, 8)
"""Orientations of EXIF that swap width and height."""
_BITS_TAG = 258
"""The tag of TIFF with the bits of each channel."""
_NO_RANGE = "32-bit pixels have no fixed range; give arrays"


def decode(path: Path, channels: str) -> Image.Image:
    """Decode an image to mode RGB, or to mode L if ``channels`` is GRAY.

    Raises:
        DataError: The file is not a regular file, unreadable, damaged or too large, or its pixels have no fixed
            range.
    """
    with _open(path) as opened:
        if opened.width * opened.height > MAX_PIXELS:
            raise _build_too_large_error(path, f" at {opened.height}×{opened.width}")
        opened.load()
        return convert_image(opened, channels, str(path))


def read_size(path: Path) -> tuple[int, int]:
    """Width and height of the image that `decode` gives, from its header; raise DataError if that cannot be read."""
    with _open(path) as opened:
        size, turned = opened.size, opened.getexif().get(ExifTags.Base.Orientation) in _TURNED
        if isinstance(opened, TiffImagePlugin.TiffImageFile):
            # whether Pillow gives the size of a TIFF upright before its pixels are loaded depends on the version
            size = (
                opened.tag_v2[TiffImagePlugin.IMAGEWIDTH],
                opened.tag_v2[TiffImagePlugin.IMAGELENGTH],
            )
            turned = opened.tag_v2.get(ExifTags.Base.Orientation) in _TURNED
        return size[::-1] if turned else size


@contextmanager
def _open(path: Path) -> Iterator[Image.Image]:
    """An open image, and the errors of reading it."""
    try:
        files.require_regular(path)
        with path.open("rb") as file, separate_filters():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with open_image(file) as opened:
                yield opened
    except DataError:
        raise
    except UnidentifiedImageError as error:
        raise DataError(
            f"{path}: not an image; supported formats are {', '.join(FORMATS)}"
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _build_too_large_error(path, "") from error
    # On damaged files, Pillow's decoders raise SyntaxError, struct.error, KeyError and more.
    except Exception as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(
            f"{path}: cannot read the image: {reason or type(error).__name__}"
        ) from error


def open_image(stream: BinaryIO) -> Image.Image:
    """Open an image of one of `FORMATS`. The checksums of a PNG are compared, because Pillow decodes damaged pixels.

    Raises:
        UnidentifiedImageError: It has none of these formats.
        SyntaxError: A part of a PNG is damaged.
        OSError: It cannot be read.
    """
    image: Image.Image = Image.open(stream, formats=FORMATS)
    if image.format == "PNG" and image.width * image.height <= MAX_PIXELS:
        image.verify()  # afterwards only a new object can be decoded
        stream.seek(0)
        image = Image.open(stream, formats=FORMATS)
    return image


def convert_image(opened: Image.Image, channels: str, where: str) -> Image.Image:
    """Turn an image upright by its EXIF orientation and convert it to mode RGB, or L if ``channels`` is GRAY.

    Raises:
        DataError: The pixels have no fixed range.
    """
    bits = getattr(opened, "tag_v2", {}).get(_BITS_TAG, ())
    if opened.mode == "I" and max(bits, default=0) > 16:
        raise DataError(f"{where}: {_NO_RANGE}")
    image = ImageOps.exif_transpose(opened)
    if image.mode.startswith("I"):
        image = _to_eight_bits(image, where)
    if image.mode == "F":
        raise DataError(f"{where}: floating-point pixels have no fixed range; give arrays")
    return image.convert("L" if channels == "GRAY" else "RGB")


def _to_eight_bits(image: Image.Image, where: str) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise DataError(f"{where}: {_NO_RANGE}")
    # 65535 = 257 · 255, and v / 257 is never halfway between two integers.
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def resize_and_crop(image: Image.Image, pre: Preprocess, where: str) -> Image.Image:
    """Resize and crop by a resolved preprocessing, with antialiasing when the image shrinks.

    A letterbox has borders of one gray level.

    Raises:
        DataError: The image becomes too large, or is smaller than the crop.
    """
    placed = place_image(image.size, pre)
    (width, height), (columns, rows) = placed.resized, placed.seen
    for across, down in (placed.resized, placed.seen):
        if across * down > MAX_PIXELS:
            raise _build_too_large_error(where, f" once resized to {down}×{across}")
    if pre.crop is not None and (rows > height or columns > width):
        raise DataError(
            f"{where}: {height}×{width} is smaller than the crop of {rows}×{columns}; give resize too"
        )
    if placed.resized != image.size:
        interpolation = Image.Resampling[(pre.interpolation or DEFAULT_INTERPOLATION).upper()]
        image = image.resize(placed.resized, interpolation)
    left, top = placed.shift
    if pre.letterbox is not None:
        level = pre.letterbox
        box = Image.new(image.mode, placed.seen, level if image.mode == "L" else (level,) * 3)
        box.paste(image, (left, top))
        return box
    if pre.crop is None:
        return image
    return image.crop((-left, -top, columns - left, rows - top))


def build_pixel_table(pre: Preprocess, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Table from the 256 pixel values to input values, one row for each channel.

    It is computed in float64 and rounded once.
    """
    count = 1 if pre.channels == "GRAY" else 3
    scaled = np.arange(256) * (1.0 if pre.scale is None else pre.scale)
    mean = np.broadcast_to(np.asarray(pre.mean or (0.0,), np.float64), count)
    std = np.broadcast_to(np.asarray(pre.std or (1.0,), np.float64), count)
    return ((scaled - mean[:, None]) / std[:, None]).astype(dtype)


def convert_pixels(image: Image.Image, pre: Preprocess, table: NDArray[Any]) -> NDArray[Any]:
    """Input values of an image by table lookup, C·H·W or H·W·C by the layout; BGR reverses the colors."""
    pixels = np.asarray(image)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    order = range(pixels.shape[2])[:: -1 if pre.channels == "BGR" else 1]
    planes = [table[k][pixels[:, :, c]] for k, c in enumerate(order)]
    return np.stack(planes, axis=0 if pre.layout == "NCHW" else -1)


def _build_too_large_error(where: Path | str, what: str) -> DataError:
    return DataError(f"{where}: the image is too large{what}; the limit is {MAX_PIXELS} pixels")
