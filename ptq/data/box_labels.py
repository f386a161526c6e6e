"""Labels of boxes: COCO's JSON or YOLO's text files, in pixels of the model's input.

COCO: ``images`` (file_name, width, height), ``annotations`` (image_id, category_id, bbox of left, top, width and
height), ``categories``. YOLO: one text beside each image or in another folder, with lines ``class x y width height``;
centre and size are shares of the image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ptq.core.errors import DataError
from ptq.data.preprocess import Preprocess


@dataclass(frozen=True, eq=False)
class LabelledBoxes:
    """The labelled boxes of one image.

    Attributes:
        corners: Left, top, right and bottom in pixels of the model's input, shape (boxes, 4).
        classes: The model's number of the class of each box.
    """

    corners: NDArray[np.float64]
    classes: NDArray[np.int64]


def read_box_labels(
    labels: Path,
    images: Path,
    names: Sequence[str],
    applied: Preprocess,
    class_names: Sequence[str] = (),
) -> dict[str, LabelledBoxes]:
    """The labelled boxes of images; an image without any has an empty set.

    Args:
        labels: COCO's JSON file, or a folder of YOLO's text files, which may be that of the images, or the data set
            that holds ``images`` and ``labels``.
        images: The folder of the images.
        names: Paths of the images in that folder.
        applied: The complete preprocessing, whose resizing moves the boxes.
        class_names: Names of the model's classes, for COCO; without them categories count from 0 by their id.

    Raises:
        DataError: A file cannot be read, or is not as described above.
    """
    if labels.is_file():
        found = _read_coco(labels, names, class_names)
    elif labels.is_dir():
        found = {name: _read_yolo(labels, name) for name in names}
    else:
        raise DataError(
            f"{labels} does not exist; give COCO's JSON file or a folder of YOLO's texts"
        )
    if not any(len(rows) for rows, _ in found.values()):
        raise DataError(f"{labels}: no box belongs to an image of {images}; names must be the same")
    return {name: _place_boxes(*found[name], images / name, applied) for name in names}


def _read_yolo(folder: Path, name: str) -> tuple[NDArray[np.float64], bool]:
    """Rows of class, left, top, right, bottom in shares of the image, and that they are shares."""
    path = next((place for place in _list_places(folder, name) if place.is_file()), None)
    if path is None:
        return np.empty((0, 5)), True
    try:
        lines = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
        rows = np.array([[float(word) for word in line] for line in lines]).reshape(-1, 5)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{path}: lines are not 'class x y width height' in shares of 1") from error
    if not np.isfinite(rows).all() or (rows < 0).any() or (rows[:, 1:] > 1.001).any():
        raise DataError(f"{path}: a value is not a share from 0 to 1, or a class is negative")
    near, far = rows[:, 1:3] - rows[:, 3:] / 2, rows[:, 1:3] + rows[:, 3:] / 2
    return np.concatenate([rows[:, :1], near, far], axis=1), True


def _list_places(folder: Path, name: str) -> list[Path]:
    """Where the text of an image may be, the likeliest first; data sets have ``labels`` in place of ``images``."""
    relative = Path(name).with_suffix(".txt")
    parts = relative.parts
    places = [relative]
    if "images" in parts[:-1]:
        at = parts.index("images")
        inside = Path(*parts[at + 1 :])
        places += [Path(*parts[:at], "labels") / inside, inside]
    return [folder / place for place in (*places, Path(relative.name))]


def _read_coco(
    path: Path, names: Sequence[str], class_names: Sequence[str]
) -> dict[str, tuple[NDArray[np.float64], bool]]:
    """Rows of class, left, top, right, bottom in pixels of the image, and that they are no shares."""
    try:
        document = json.loads(path.read_text("utf-8"))
        numbers = _number_categories(document["categories"], class_names)
        files = {image["id"]: str(image["file_name"]) for image in document["images"]}
        rows: dict[str, list[list[float]]] = {}
        for one in document["annotations"]:
            left, top, width, height = map(float, one["bbox"])
            number = numbers.get(one["category_id"])
            if number is not None and not one.get("iscrowd"):
                row = [number, left, top, left + width, top + height]
                rows.setdefault(files[one["image_id"]], []).append(row)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: not COCO's annotations (images, annotations with bbox, categories)"
        ) from error
    by_name = {Path(file).name: found for file, found in rows.items()}
    return {
        name: (np.array(rows.get(name, by_name.get(Path(name).name, []))).reshape(-1, 5), False)
        for name in names
    }


def _number_categories(categories: Any, class_names: Sequence[str]) -> Mapping[Any, int]:
    if class_names:
        known = {name: number for number, name in enumerate(class_names)}
        found = {c["id"]: known[c["name"]] for c in categories if c["name"] in known}
        if found:
            return found
    return {c["id"]: number for number, c in enumerate(sorted(categories, key=lambda c: c["id"]))}


def _place_boxes(
    rows: NDArray[np.float64], shares: bool, image: Path, applied: Preprocess
) -> LabelledBoxes:
    """The boxes where the preprocessing moves them."""
    classes, corners = rows[:, 0].astype(np.int64), rows[:, 1:]
    width, height = _read_size(image)
    if shares:
        corners = corners * (width, height, width, height)
    ratio, shift = np.ones(2), np.zeros(2)
    if applied.size is not None:
        rows_columns = np.array(applied.size[::-1], np.float64)
        ratio = rows_columns / (width, height)
        if applied.letterbox is not None:
            ratio[:] = ratio.min()
            fitted = np.maximum(np.round(ratio * (width, height)), 1)
            shift = (rows_columns - fitted) // 2
    elif applied.resize is not None:
        short = min(width, height)
        resized = np.array([applied.resize * width // short, applied.resize * height // short])
        ratio = resized / (width, height)
        if applied.crop is not None:
            shift = -np.round((resized - applied.crop[::-1]) / 2)
    moved = corners * np.tile(ratio, 2) + np.tile(shift, 2)
    return LabelledBoxes(moved, classes)


def _read_size(path: Path) -> tuple[int, int]:
    try:
        with Image.open(path) as image:
            transposed = image.getexif().get(0x0112, 1) >= 5
            return image.size[::-1] if transposed else image.size
    except Exception as error:  # Pillow's decoders raise many kinds on damaged files
        raise DataError(f"{path}: cannot read the size of the image") from error
