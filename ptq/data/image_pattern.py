"""Identity of images up to their preprocessing: the order of the values in each colour channel.

Scale, mean and std, also of each channel, keep the order of the values, and so does a swap of colours up to a
permutation of the channels. Two images that were resized alike and normalized otherwise have the same pattern.
Another size, crop or interpolation gives another pattern.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_CHANNELS = 4
_POSITIONS = 1024
"""Values of each channel that are compared, evenly spread."""
MIN_LEVELS = 16
"""Fewer different values occur in different images in the same order, for example in drawings."""


def digest_pattern(feed: Mapping[str, NDArray[Any]]) -> bytes | None:
    """SHA-256 of the order of the values in each channel; None if the feed is not one image of enough levels.

    Args:
        feed: Arrays by input name. One image has the shape [1, C, H, W] or [1, H, W, C] with 1 to 4 channels.
    """
    arrays = list(feed.values())
    if len(arrays) != 1 or arrays[0].ndim != 4 or arrays[0].shape[0] != 1:
        return None
    image = arrays[0][0]
    if image.shape[0] > _MAX_CHANNELS:
        image = np.moveaxis(image, -1, 0)
    if image.dtype.kind not in "fiu" or not 1 <= image.shape[0] <= _MAX_CHANNELS:
        return None
    channels = [_digest_order(channel.reshape(-1)) for channel in image]
    if not all(channels):
        return None
    return hashlib.sha256(b"pattern" + b"".join(sorted(channels))).digest()


def _digest_order(values: NDArray[Any]) -> bytes:
    """SHA-256 of the rank of each value among the different values; empty if these are few."""
    count = min(values.size, _POSITIONS)
    chosen = values[np.arange(count) * values.size // max(count, 1)]
    levels, ranks = np.unique(chosen, return_inverse=True)
    if len(levels) < MIN_LEVELS:
        return b""
    return hashlib.sha256(ranks.astype("<u2").tobytes()).digest()
