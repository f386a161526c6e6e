"""Labels of boxes in COCO's JSON.

It holds ``images`` (id, file_name), ``annotations`` (image_id, category_id, bbox of left, top, width and height,
iscrowd) and ``categories`` (id, name).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ptq.core.errors import DataError
from ptq.core.wording import plural
from ptq.data.labels.labelled_boxes import BoxLabels, ClassNumbers, list_boxes

_MAX_NAMED = 10


def read_coco(
    path: Path, names: Sequence[str], every_name: Collection[str], class_names: Sequence[str]
) -> BoxLabels:
    """The boxes of images in pixels of the image; images that the file does not list are left out.

    Args:
        path: The file.
        names: Paths of the images in their folder.
        every_name: The paths of all images there.
        class_names: Names of the model's classes; without them its numbers of the categories are unknown.

    Raises:
        DataError: The file cannot be read, or is not as described above.
    """
    try:
        document = json.loads(path.read_text("utf-8-sig"))
        categories = sorted(document["categories"], key=lambda category: category["id"])
        numberings, known = _number_categories(categories, class_names)
        kept = {category["id"]: number for number, category in enumerate(known)}
        files = {image["id"]: str(image["file_name"]) for image in document["images"]}
        rows: dict[str, list[list[float]]] = {file: [] for file in files.values()}
        crowds: dict[str, list[bool]] = {file: [] for file in files.values()}
        for one in document["annotations"]:
            left, top, width, height = map(float, one["bbox"])
            file = files.get(one["image_id"])
            if file is None:
                raise DataError(
                    f"{path}: an annotation is of image {one['image_id']!r}, which `images` does not list; add the "
                    "image, or remove the annotation"
                )
            number = kept.get(one["category_id"])
            if number is not None:
                rows[file].append([number, left, top, left + width, top + height])
                crowds[file].append(bool(one.get("iscrowd")))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: not COCO's annotations (images, annotations with bbox, categories)"
        ) from error
    matched = _match_files(rows, names, every_name)
    notes = []
    absent = len(names) - len(matched)
    if absent:
        are, them = ("is", "it") if absent == 1 else ("are", "them")
        count = f"{absent} of {plural(len(names), 'image')} {are} left out of mAP"
        notes.append(f"{count}: {path.name} does not list {them}")
    unknown = [str(category["name"]) for category in categories if category["id"] not in kept]
    if unknown:
        listed = ", ".join(unknown[:_MAX_NAMED]) + (", …" if unknown[_MAX_NAMED:] else "")
        are, name = ("is", "that name") if len(unknown) == 1 else ("are", "these names")
        count = f"{len(unknown)} of {len(categories)} categories {are} left out of mAP"
        notes.append(f"{count}: the model has no class of {name} ({listed})")
    found = {name: list_boxes(rows[file], crowds[file]) for name, file in matched.items()}
    return BoxLabels(found, numberings, tuple(notes))


def _match_files(
    files: Collection[str], names: Sequence[str], every_name: Collection[str]
) -> dict[str, str]:
    """The listed file of each image: that of the same path, else the only one of the same name on both sides."""
    listed = Counter(Path(file).name for file in files)
    own = Counter(Path(name).name for name in every_name)
    by_name = {Path(file).name: file for file in files}
    found = {}
    for name in names:
        last = Path(name).name
        if name in files:
            found[name] = name
        elif listed[last] == own[last] == 1:
            found[name] = by_name[last]
    return found


def _number_categories(
    categories: Sequence[Any], class_names: Sequence[str]
) -> tuple[tuple[ClassNumbers, ...], Sequence[Any]]:
    """How the model may number categories, and those that it has; all without names, or if no name is the same."""
    numbers = {name: number for number, name in enumerate(class_names)}
    known = [category for category in categories if numbers and category["name"] in numbers]
    if known:
        by_name = tuple(numbers[category["name"]] for category in known)
        return (ClassNumbers("those of its names", by_name),), known
    ids = [int(category["id"]) for category in categories]
    ways = {
        "0, 1, … in the order of the ids of the categories": range(len(ids)),
        "the ids of the categories": ids,
        "1, 2, … in the order of the ids of the categories": range(1, len(ids) + 1),
        "the ids of the categories minus 1": [number - 1 for number in ids],
    }
    different: dict[tuple[int, ...], str] = {}
    for name, way in ways.items():
        if min(way, default=0) >= 0:
            different.setdefault(tuple(way), name)
    return tuple(ClassNumbers(name, way) for way, name in different.items()), categories
