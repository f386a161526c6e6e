"""The flatbuffer classes of `.tflite` files, from the optional package ``ai-edge-litert``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ptq.core.errors import UnsupportedError

IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of every `.tflite` file."""
SUFFIX = ".tflite"


def is_litert_installed() -> bool:
    """Whether the package ``ai-edge-litert`` is installed."""
    return find_spec("ai_edge_litert") is not None


def require_litert() -> None:
    """Check that the package ``ai-edge-litert`` is installed.

    Raises:
        UnsupportedError: It is not.
    """
    if not is_litert_installed():
        raise UnsupportedError(
            "a .tflite file needs the package ai-edge-litert; install it with "
            "pip install 'onnx-ptq[litert]'"
        )


@cache
def load_schema() -> Any:
    """The module of flatbuffer classes.

    Raises:
        UnsupportedError: The package ``ai-edge-litert`` is not installed.
    """
    require_litert()
    return import_module("ai_edge_litert.schema_py_generated")


def get_tensor_type(dtype: np.dtype[Any]) -> int:
    """LiteRT's number of an element type.

    Raises:
        UnsupportedError: LiteRT has no such type.
    """
    number = getattr(load_schema().TensorType, dtype.name.upper(), None)
    if number is None:
        raise UnsupportedError(f"LiteRT has no tensors of type {dtype.name}")
    return int(number)
