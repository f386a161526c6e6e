"""Labels of boxes: COCO's JSON or YOLO's text files, in pixels of the model's input."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.formats.decode import read_size
from ptq.data.labels.coco_labels import read_coco
from ptq.data.labels.labelled_boxes import BoxLabels, LabelledBoxes
from ptq.data.labels.yolo_labels import read_yolo
from ptq.data.preprocessing.placement import place_image
from ptq.data.preprocessing.preprocess import Preprocess

MIN_VISIBLE = 0.25
"""Share of a box inside the crop from which on a model must find it; what is found of less does not count."""


def read_box_labels(
    labels: Path,
    images: Path,
    names: Sequence[str],
    every_name: Collection[str],
    applied: Preprocess,
    class_names: Sequence[str],
) -> BoxLabels:
    """The labelled boxes of images; none of an image whose size cannot be read, since its sample is refused.

    Args:
        labels: COCO's JSON file, or a folder of YOLO's text files, which may be that of the images, or the data set
            that holds ``images`` and ``labels``.
        images: The folder of the images.
        names: Paths of the images in that folder.
        every_name: The paths of all images there.
        applied: The complete preprocessing, whose resizing moves the boxes.
        class_names: Names of the model's classes, for COCO; empty if they are unknown.

    Raises:
        DataError: A file cannot be read, or is not as the readers describe it.
    """
    if os.path.isfile(labels):
        found = read_coco(labels, names, every_name, class_names)
    elif os.path.isdir(labels):
        found = read_yolo(labels, names, every_name)
    else:
        raise DataError(
            f"{labels} does not exist; give COCO's JSON file or a folder of YOLO's texts"
        )
    if not any(map(len, found.images.values())):
        raise DataError(f"{labels}: no box belongs to an image of {images}; names must be the same")
    placed = {
        name: _place_boxes(boxes, size, applied, shares=labels.is_dir())
        for name, boxes in found.images.items()
        if (size := _find_size(images / name)) is not None
    }
    cut = sum(count for _, count in placed.values())
    total = sum(len(found.images[name]) for name in placed)
    note = f"{cut} of {total} labelled boxes lie outside the crop and are left out of mAP"
    return replace(
        found,
        images={name: boxes for name, (boxes, _) in placed.items()},
        notes=(*found.notes, note) if cut else found.notes,
    )


def _find_size(image: Path) -> tuple[int, int] | None:
    """Width and height of an image; None if it cannot be read, as its sample then says."""
    try:
        return read_size(image)
    except DataError:
        return None


def _place_boxes(
    boxes: LabelledBoxes, size: tuple[int, int], applied: Preprocess, *, shares: bool
) -> tuple[LabelledBoxes, int]:
    """The boxes where the preprocessing moves them, and how many a crop leaves out.

    A crop cuts boxes. One that lies in it by less than `MIN_VISIBLE` is ignored.
    """
    corners = boxes.corners
    if shares:
        corners = corners * np.tile(size, 2)
    placed = place_image(size, applied)
    ratio = np.array(placed.resized) / size
    moved = corners * np.tile(ratio, 2) + np.tile(placed.shift, 2)
    if applied.crop is None:
        return replace(boxes, corners=moved), 0
    inside = np.clip(moved, 0, np.tile(placed.seen, 2))
    left, whole = _measure_areas(inside), _measure_areas(moved)
    cut = left < MIN_VISIBLE * whole
    found = LabelledBoxes(inside, boxes.classes, boxes.ignored | cut)
    return found.take((left > 0) | ~cut), int(cut.sum())


def _measure_areas(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    areas: NDArray[np.float64] = (corners[:, 2:] - corners[:, :2]).prod(axis=1)
    return areas
