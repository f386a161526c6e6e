"""Boxes that the graph leaves relative to cells of a grid → boxes in pixels.

- one output of rows (x, y, log w, log h, objectness, scores), where x and y are cells from the corner of a cell:
  YOLOX as its exporter writes it;
- for each level one output of scores and one of distances from the centre of a cell to the four sides, each as logits
  over whole cells: PicoDet and other heads with distribution focal loss.

The rows of an output are the cells of the image, row by row, finest level first. Their number shows the level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.evaluation.tasks.box_heads import (
    CONFIDENCE,
    SUPPRESSION_IOU,
    are_shares,
    choose_boxes,
    compute_probabilities,
    read_rows,
)
from ptq.evaluation.tasks.boxes import Boxes, Floats
from ptq.evaluation.tasks.image_size import find_image_size
from ptq.evaluation.tasks.task import Arrays

_STRIDES = (8, 16, 32, 64)
"""Pixels of a cell; detectors use the first three or all four."""


@dataclass(frozen=True)
class Level:
    """The cells of one size.

    Attributes:
        stride: Pixels of a cell.
        scores: Name of the output with the scores.
        boxes: Name of the output with the boxes; the same for one output.
    """

    stride: int
    scores: str
    boxes: str


@dataclass(frozen=True)
class GridHead:
    """Where a detector's outputs hold boxes relative to cells. The image gives the number of cells.

    Attributes:
        levels: The levels, the finest first. They share one output, or each has its own.
    """

    levels: tuple[Level, ...]

    @property
    def boxes(self) -> str:
        """Name of the output with the boxes of the finest level."""
        return self.levels[0].boxes

    @property
    def scores(self) -> str:
        """Name of the output with the scores of the finest level."""
        return self.levels[0].scores

    @property
    def layout(self) -> object:
        """What all images have in common."""
        return self

    def decode(
        self,
        outputs: Arrays,
        feed: Arrays,
        confidence: float = CONFIDENCE,
        overlap: float = SUPPRESSION_IOU,
    ) -> Boxes:
        """The boxes of one image whose score is at least ``confidence``, suppressed above an overlap.

        Raises:
            DataError: The outputs do not have the image's number of cells.
        """
        size = find_image_size(feed)
        if size is None:
            raise DataError(f"output {self.boxes} has boxes of cells, but no input is an image")
        places = [_place_cells(size, level.stride) for level in self.levels]
        decode = self._decode_rows if self.boxes == self.scores else self._decode_levels
        corners, scores = decode(outputs, places)
        return choose_boxes(corners, scores.max(axis=1), scores.argmax(axis=1), confidence, overlap)

    def _decode_rows(self, outputs: Arrays, places: Sequence[Floats]) -> tuple[Floats, Floats]:
        cells = np.concatenate(places)
        rows = _require_cells(outputs, self.boxes, len(cells))
        strides = [level.stride for level in self.levels]
        stride = np.repeat(np.array(strides, np.float64), [len(of) for of in places])[:, None]
        centre = (rows[:, :2] + cells) * stride
        half = np.exp(np.minimum(rows[:, 2:4], 50)) * stride / 2
        return np.concatenate([centre - half, centre + half], axis=1), rows[:, 4:5] * rows[:, 5:]

    def _decode_levels(self, outputs: Arrays, places: Sequence[Floats]) -> tuple[Floats, Floats]:
        corners, scores = list[Floats](), list[Floats]()
        for level, cells in zip(self.levels, places, strict=True):
            logits = _require_cells(outputs, level.boxes, len(cells)).reshape(4 * len(cells), -1)
            shares = compute_probabilities(logits, "softmax")
            sides = (shares * np.arange(shares.shape[1])).sum(axis=1).reshape(-1, 2, 2)
            centre = cells + 0.5
            pair = np.concatenate([centre - sides[:, 0], centre + sides[:, 1]], axis=1)
            corners.append(pair * level.stride)
            scores.append(_require_cells(outputs, level.scores, len(cells)))
        return np.concatenate(corners), np.concatenate(scores)


def _place_cells(size: tuple[int, int], stride: int) -> Floats:
    """Left and top of each cell of an image, in cells, shape (cells, 2)."""
    top, left = np.mgrid[: -(-size[0] // stride), : -(-size[1] // stride)]
    return np.stack([left.ravel(), top.ravel()], axis=1).astype(np.float64)


def list_grid_heads(outputs: Arrays, feed: Arrays) -> Iterator[GridHead]:
    """The heads on grids that the outputs of one image may be.

    Args:
        outputs: Outputs of the float model.
        feed: The image; its size gives the number of cells.
    """
    size = find_image_size(feed)
    if size is None:
        return
    tables = {
        name: y.shape[1:]
        for name, y in outputs.items()
        if y.ndim == 3 and len(y) == 1 and y.dtype.kind == "f"
    }
    for strides in (_STRIDES[:3], _STRIDES):
        counts = [len(_place_cells(size, stride)) for stride in strides]
        for name, (count, width) in tables.items():
            if count == sum(counts) and width > 5 and _are_cell_rows(outputs[name]):
                yield _join_levels(strides, [(name, name)] * len(strides))
        pairs = [_find_pair(outputs, tables, count) for count in counts]
        found = [pair for pair in pairs if pair is not None]
        if len(found) == len(pairs) == len(tables) // 2:
            yield _join_levels(strides, found)


def _are_cell_rows(rows: NDArray[Any]) -> bool:
    """Whether shares follow four numbers that are none: offsets, and logarithms of sizes."""
    return are_shares(rows[..., 4:]) and not are_shares(rows[..., :4])


def _find_pair(
    outputs: Arrays, tables: dict[str, tuple[int, ...]], count: int
) -> tuple[str, str] | None:
    """The outputs with scores and with distances of a level; None if there are not exactly two."""
    both = [name for name, shape in tables.items() if shape[0] == count]
    scores = [name for name in both if are_shares(outputs[name])]
    boxes = [n for n in both if n not in scores and not tables[n][1] % 4 and tables[n][1] > 4]
    return (scores[0], boxes[0]) if len(scores) == len(boxes) == 1 and len(both) == 2 else None


def _join_levels(strides: Sequence[int], names: Sequence[tuple[str, str]]) -> GridHead:
    found = zip(strides, names, strict=True)
    return GridHead(tuple(Level(stride, *pair) for stride, pair in found))


def _require_cells(outputs: Arrays, name: str, count: int) -> Floats:
    rows = read_rows(outputs[name], columns=False)
    if len(rows) != count:
        raise DataError(
            f"output {name} has boxes of {len(rows)} cells, and the image has {count}; "
            "give images whose sides are multiples of the largest cell"
        )
    return rows
