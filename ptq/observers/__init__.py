"""Statistics of tensors, and the observers that choose a range from them, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ptq.errors import UsageError
from ptq.observers.kl import kl
from ptq.observers.minmax import minmax
from ptq.observers.mse import mse
from ptq.observers.observer import Observer
from ptq.observers.percentile import percentile
from ptq.observers.stats import TensorStats

OBSERVERS: Mapping[str, Observer] = MappingProxyType(
    {"minmax": minmax, "percentile": percentile(), "kl": kl(), "mse": mse}
)
"""Every observer with its usual parameters."""


def observer_named(name: str) -> Observer:
    """The observer of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in OBSERVERS:
        raise UsageError(f"method {name!r} is unknown; choose one of {', '.join(OBSERVERS)}")
    return OBSERVERS[name]


__all__ = [
    "OBSERVERS",
    "Observer",
    "TensorStats",
    "kl",
    "minmax",
    "mse",
    "observer_named",
    "percentile",
]
