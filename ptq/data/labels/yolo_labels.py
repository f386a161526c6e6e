"""Labels of boxes in YOLO's texts: one beside each image or in another folder, a line for each object.

A line is ``class x y width height``: centre and size are shares of the image. The class may be followed by a polygon
``x y x y …``, or the box by landmarks ``x y visibility …``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.labels.labelled_boxes import BoxLabels, ClassNumbers, LabelledBoxes, list_boxes

_BOX, _POLYGON, _LANDMARK = 5, 7, 3
"""Values of a box with its class, of the shortest polygon with its class, and of a landmark."""
_VISIBILITIES = (0, 1, 2)
_MAX_CLASSES = 100_000
"""More than any set of classes has, so that a number of another kind is refused."""

Lines = list[NDArray[np.float64]]


def read_yolo(folder: Path, names: Sequence[str], every_name: Collection[str]) -> BoxLabels:
    """The boxes of images, in shares of the image; an image without a text has none.

    Args:
        folder: The folder of the texts, of the images, or of the data set with both.
        names: Paths of the images in their folder.
        every_name: The paths of all images there.

    Raises:
        DataError: A text cannot be read, or has other lines.
    """
    stems = Counter(Path(name).stem for name in every_name)
    paths = {name: _find_text(folder, name, alone=stems[Path(name).stem] == 1) for name in names}
    lines = {path: _read_lines(path) for path in paths.values() if path is not None}
    landmarks = _find_landmarks(lines)
    found = {
        name: list_boxes([]) if path is None else _read_boxes(path, lines[path], landmarks)
        for name, path in paths.items()
    }
    count = 1 + max((int(boxes.classes.max(initial=-1)) for boxes in found.values()), default=-1)
    return BoxLabels(
        found,
        (
            ClassNumbers("those of the texts", tuple(range(count))),
            ClassNumbers("those of the texts plus 1", tuple(range(1, count + 1))),
        ),
    )


def _find_text(folder: Path, name: str, *, alone: bool) -> Path | None:
    """The text of an image; data sets have ``labels`` in place of ``images``.

    Args:
        folder: The folder of the texts.
        name: The path of the image.
        alone: Whether no other image has the same name in another folder.
    """
    relative = Path(name).with_suffix(".txt")
    parts = relative.parts
    places = [relative]
    if "images" in parts[:-1]:
        at = parts.index("images")
        inside = Path(*parts[at + 1 :])
        places += [Path(*parts[:at], "labels") / inside, inside]
    if alone:
        places.append(Path(relative.name))
    return next((folder / place for place in places if (folder / place).is_file()), None)


def _read_lines(path: Path) -> Lines:
    try:
        texts = [line.split() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
        lines = [np.array([float(word) for word in words]) for words in texts]
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{path}: lines are not 'class x y width height' in shares of 1") from error
    return lines


def _find_landmarks(lines: Mapping[Path, Lines]) -> frozenset[int]:
    """Numbers of values of the lines that are boxes with landmarks; longer lines of other numbers are polygons.

    A data set has as many landmarks on each line: lines of several lengths are polygons. Each landmark has a
    visibility of 0, 1 or 2, where a polygon has a share. A polygon at the corner of the image may have 0 and 1 there;
    then its first values are no box in the image.

    Raises:
        DataError: Lines are neither, or may be both.
    """
    by_length: dict[int, tuple[Path, Lines]] = {}
    for path, of_file in lines.items():
        for line in of_file:
            by_length.setdefault(len(line), (path, []))[1].append(line)
    found = set[int]()
    longer = {length for length in by_length if length != _BOX}
    for length, (path, rows) in by_length.items():
        if length == _BOX:
            continue
        table = np.array(rows)
        seen = table[:, _BOX + _LANDMARK - 1 :: _LANDMARK]
        whole = length > _BOX and (length - _BOX) % _LANDMARK == 0
        visible = len(longer) == 1 and whole and np.isin(seen, _VISIBILITIES).all()
        if visible and (length % 2 == 0 or _are_boxes_inside(table)):
            found.add(length)
        elif length < _POLYGON or length % 2 == 0:
            raise DataError(
                f"{path}: a line has {length} values; lines are 'class x y width height' in shares of 1, "
                "or 'class x y x y …' of a polygon"
            )
        elif len(longer) == 1 and _have_points_inside(table):
            raise DataError(
                f"{path}: the {length} values of a line may be a polygon, or a box with landmarks; "
                "give the first five values of boxes"
            )
    return frozenset(found)


def _are_boxes_inside(table: NDArray[np.float64]) -> bool:
    """Whether the first five values of all lines are a box in the image."""
    centre, half = table[:, 1:3], table[:, 3:5] / 2
    return bool((centre - half >= -1e-3).all() and (centre + half <= 1.001).all())


def _have_points_inside(table: NDArray[np.float64]) -> bool:
    """Whether all points behind the first five values lie in the box that these give, and the box in the image.

    A landmark that is not seen is the point (0, 0), and shows nothing.
    """
    points = table[:, _BOX:].reshape(len(table), -1, 2)
    centre, half = table[:, None, 1:3], table[:, None, 3:5] / 2
    seen = (points != 0).any(axis=2)
    outside = (np.abs(points - centre) > half + 1e-3).any(axis=2)
    return bool(seen.any() and not (outside & seen).any() and _are_boxes_inside(table))


def _read_boxes(path: Path, lines: Lines, landmarks: Collection[int]) -> LabelledBoxes:
    """The boxes of one text in shares of the image."""
    rows = []
    for line in lines:
        used = line[:_BOX] if len(line) in landmarks else line
        if not np.isfinite(used).all() or (used < 0).any() or (used[1:] > 1.001).any():
            raise DataError(f"{path}: a value is not a share from 0 to 1, or a class is negative")
        if used[0] % 1 or used[0] >= _MAX_CLASSES:
            raise DataError(
                f"{path}: class {used[0]:.15g} is not a whole number from 0 to {_MAX_CLASSES - 1}"
            )
        if len(used) == _BOX:
            near, far = used[1:3] - used[3:] / 2, used[1:3] + used[3:] / 2
        else:
            points = used[1:].reshape(-1, 2)
            near, far = points.min(axis=0), points.max(axis=0)
        rows.append([used[0], *near, *far])
    return list_boxes(rows)
