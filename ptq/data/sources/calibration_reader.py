"""ONNX Runtime's ``CalibrationDataReader``: ``get_next()`` returns a feed, and None behind the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def is_reader(source: Any) -> bool:
    """Whether an object has the method of a ``CalibrationDataReader``."""
    return callable(getattr(source, "get_next", None))


def iterate_feeds(reader: Any) -> Iterator[Any]:
    """The feeds from the current one on. The class has no method that starts anew."""
    while (feed := reader.get_next()) is not None:
        yield feed
