"""Where the preprocessing puts an image in the model's input: its pixels, and the boxes labelled in it."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.data.preprocessing.preprocess import Preprocess


@dataclass(frozen=True)
class Placement:
    """Place of an image.

    Attributes:
        resized: Width and height after resizing.
        shift: Columns and rows from the corner of the input to that of the resized image; negative for a crop.
        seen: Width and height of the input.
    """

    resized: tuple[int, int]
    shift: tuple[int, int]
    seen: tuple[int, int]


def place_image(size: tuple[int, int], pre: Preprocess) -> Placement:
    """The place of an image of this width and height by a resolved preprocessing.

    A crop starts at half of the surplus: rounded with ties to even, as in torchvision, or down. Lengths of a
    letterbox are rounded, and half of an odd border is rounded down on the near side, as Ultralytics does.
    """
    width, height = size
    if pre.size is not None:
        rows, columns = pre.size
        resized = columns, rows
        if pre.letterbox is not None:
            ratio = min(rows / height, columns / width)
            resized = max(round(width * ratio), 1), max(round(height * ratio), 1)
        shift = (columns - resized[0]) // 2, (rows - resized[1]) // 2
        return Placement(resized, shift, (columns, rows))
    if pre.resize is not None:
        short = min(size)
        width, height = pre.resize * width // short, pre.resize * height // short
    if pre.crop is None:
        return Placement((width, height), (0, 0), (width, height))
    rows, columns = pre.crop
    halve = int if pre.crop_rounding == "down" else round
    shift = -halve((width - columns) / 2), -halve((height - rows) / 2)
    return Placement((width, height), shift, (columns, rows))
