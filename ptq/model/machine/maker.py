"""Versions and kind of processor, as far as float results depend on them."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np

from ptq.core.record import Record
from ptq.model.machine.ort_version import ORT_VERSION
from ptq.model.machine.processor import list_features, name_machine


def describe_maker() -> Record:
    """Versions and kind of processor of this process."""
    return {
        "ptq": version("onnx-ptq"),
        "onnxruntime": ORT_VERSION,
        "numpy": np.__version__,
        "machine": name_machine(),
        "features": list(list_features()),
    }


def list_differences(makers: list[Record] | tuple[Record, ...]) -> list[str]:
    """What differs between processes, by the keys of `describe_maker`."""
    return [key for key in makers[0] if len({str(each.get(key)) for each in makers}) > 1]
