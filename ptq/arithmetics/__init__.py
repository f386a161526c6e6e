"""How each system of integer arithmetic computes each operator."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.arithmetics import litert, ort
from ptq.arithmetics.site import Maker
from ptq.errors import UsageError

ARITHMETICS: Mapping[str, Mapping[str, Maker]] = {"ort": ort.KERNELS, "litert": litert.KERNELS}
"""Kernels by operator, by arithmetic; a pair that is missing cannot be run."""


def arithmetic(name: str) -> Mapping[str, Maker]:
    """The kernels of the arithmetic of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in ARITHMETICS:
        raise UsageError(f"arithmetic {name!r} is unknown; choose one of {', '.join(ARITHMETICS)}")
    return ARITHMETICS[name]
