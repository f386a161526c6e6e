"""The installed ONNX Runtime's version: the key of every table of what changed between versions.

ONNX Runtime is loaded here first, without telemetry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeVar

# ONNX Runtime reads this when it is loaded. Since 1.29 its Linux wheels collect usage data without it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

Version = tuple[int, int]
"""Major and minor version. Patch releases change no rule that a table here holds."""
T = TypeVar("T")

ORT_VERSION: str = onnxruntime.__version__


def parse_version(text: str) -> Version:
    """Major and minor version of a text such as ``1.31.1`` or ``1.32.0.dev1``.

    Raises:
        ValueError: The text does not begin with two numbers.
    """
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


INSTALLED: Version = parse_version(ORT_VERSION)


def find_entry(table: Mapping[Version, T], version: Version = INSTALLED) -> T:
    """The entry that holds for a version: the newest that is not newer, or the oldest entry of all."""
    return table[max((v for v in table if v <= version), default=min(table))]
