"""Preprocessing options for a source whose samples may be images or arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptq.core.errors import DataError
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.preparation_kinds import require_images
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.preprocessing.recorded_preprocess import RecordedPreprocess, complete_preprocess


@dataclass(frozen=True)
class ImageOptions:
    """Options for the images among the samples of a source.

    Arrays of uint8 pixels are images. Other arrays are fed as given, or refused.

    Attributes:
        preprocess: Options from image to array.
        required: Whether arrays that are no images are refused.
    """

    preprocess: Preprocess
    required: bool = True


def choose_image_options(
    given: Preparation | None,
    recorded: RecordedPreprocess | None,
    where: str,
    *,
    required: bool,
) -> ImageOptions | None:
    """The options for the images of a source of arrays or objects: given, else recorded; None without any.

    Args:
        given: What the user gives.
        recorded: What an earlier run recorded; it completes the options.
        where: Name of the data in the error.
        required: Whether samples that the given options do not apply to are refused.

    Raises:
        UsageError: The given options are for audio or for text, and they are required.
    """
    known: Preparation | None
    try:
        known = complete_preprocess(given, recorded)
    except DataError:  # a damaged record: arrays need none
        known = given
    if given is None or not required:
        return ImageOptions(known, required=False) if isinstance(known, Preprocess) else None
    images = require_images(known, where)
    return None if images is None else ImageOptions(images, required=given != Preprocess())


def may_be_image(dtype: np.dtype[Any], shape: Sequence[int]) -> bool:
    """Whether an array may be one image: uint8 of shape H·W, H·W·C or C·H·W, with 1, 3 or 4 channels."""
    if dtype != np.uint8 or len(shape) not in (2, 3) or 0 in shape:
        return False
    return len(shape) == 2 or shape[0] in (1, 3, 4) or shape[2] in (1, 3, 4)
