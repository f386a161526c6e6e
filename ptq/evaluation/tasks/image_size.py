"""The height and width of the image that a sample holds."""

from __future__ import annotations

from ptq.evaluation.tasks.task import Arrays

_CHANNELS = (1, 3, 4)


def find_image_size(feed: Arrays) -> tuple[int, int] | None:
    """Height and width of the image in pixels; None unless exactly one input is one image.

    Args:
        feed: The inputs of one sample. An image has shape (1, channels, height, width) or
            (1, height, width, channels), with 1, 3 or 4 channels.
    """
    images = [array.shape for array in feed.values() if array.ndim == 4 and array.shape[0] == 1]
    if len(images) != 1:
        return None
    [(_, *shape)] = images
    if shape[0] in _CHANNELS:
        return shape[1], shape[2]
    return (shape[0], shape[1]) if shape[2] in _CHANNELS else None
