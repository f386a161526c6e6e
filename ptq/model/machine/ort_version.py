"""The installed ONNX Runtime's version: the key of every table of what changed between versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

Version = tuple[int, int]
"""Major and minor version. Patch releases change no rule that a table here holds."""
T = TypeVar("T")


def _read_version() -> str:
    """The module's ``__version__``, read from its source: ``ptq ops`` needs no runtime, and loading it takes 0.1 s.

    The metadata of a distribution can differ: onnxruntime and onnxruntime-gpu both provide the module.
    """
    spec = find_spec("onnxruntime")
    if spec is not None and spec.origin is not None:
        source = Path(spec.origin).read_text(encoding="utf-8")
        if found := re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE):
            return found[1]
    import onnxruntime  # a build whose source does not name the version

    return str(onnxruntime.__version__)


ORT_VERSION = _read_version()


def parse_version(text: str) -> Version:
    """Major and minor version of a text such as ``1.31.1`` or ``1.32.0.dev1``.

    Raises:
        ValueError: The text does not begin with two numbers.
    """
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


INSTALLED: Version = parse_version(ORT_VERSION)


def find_entry(table: Mapping[Version, T]) -> T:
    """The entry that holds for the installed version: the newest that is not newer, or the oldest entry of all."""
    return table[max((v for v in table if v <= INSTALLED), default=min(table))]
