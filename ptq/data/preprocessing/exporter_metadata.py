"""Preprocessing and class names that exporters write into the metadata of a model.

Ultralytics writes ``stride``, ``task``, ``imgsz``, ``names`` and more. Its detectors read RGB images of 0 … 1, fitted
into ``imgsz`` on borders of gray 114 (`ultralytics.data.augment.LetterBox`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from ptq.core.record import Record

LETTERBOX_GRAY = 114
"""Gray level of the borders, in the training of YOLOv5 and later."""
LETTERBOX_TASKS = frozenset(["detect", "segment", "pose", "obb"])
"""Tasks whose images are letterboxed; a classifier's are cropped."""
_LONGEST_LITERAL = 2**20
"""Characters; the names of 20,000 classes are shorter."""


def read_exporter_record(metadata: Mapping[str, str]) -> Record | None:
    """The record of the preprocessing that Ultralytics' metadata stand for; None for other metadata.

    Args:
        metadata: The model's metadata. Ultralytics' are those with a stride, a size and a task of boxes.
    """
    if "stride" not in metadata or metadata.get("task") not in LETTERBOX_TASKS:
        return None
    size = _read_size(metadata.get("imgsz", ""))
    if size is None:
        return None
    return {
        "source": "images",
        "channels": "RGB",
        "size": size,
        "letterbox": LETTERBOX_GRAY,
        "scale": 1 / 255,
    }


def read_names(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes, in the model's order, that Ultralytics writes into the metadata; empty without.

    They are a list, or the name by the number of the class, which JSON writes as a text. A class that has no name is
    named by its number. Where no class has the number 0, the numbers only give the order.
    """
    names = read_literal(metadata.get("names", ""))
    if not isinstance(names, dict):
        return tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()
    if not all(re.fullmatch("[0-9]{1,6}", str(key)) for key in names):
        return ()
    numbered = {int(key): str(name) for key, name in names.items()}
    last = max(numbered) if 0 in numbered else -1
    unnamed = {number: str(number) for number in range(last + 1)}
    return tuple(name for _, name in sorted((unnamed | numbered).items()))


def _read_size(text: str) -> list[int] | None:
    """Height and width from ``[640, 640]`` or ``640``; None from other texts."""
    value = read_literal(text)
    sizes = [value, value] if isinstance(value, int) else value
    if not isinstance(sizes, (list, tuple)) or len(sizes) != 2:
        return None
    return [*sizes] if all(type(n) is int and 0 < n < 2**15 for n in sizes) else None


def read_literal(text: str) -> object:
    """The numbers, texts, lists and dictionaries that a text writes as Python's literals; None from other texts.

    Nothing is executed: `ast.literal_eval` takes literals alone.
    """
    if len(text) > _LONGEST_LITERAL:
        return None
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value
