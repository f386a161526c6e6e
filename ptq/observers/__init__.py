"""Statistics of tensors, and the observers that choose a range from them, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ptq.core.errors import UsageError
from ptq.core.types import QType, Range
from ptq.observers.kl import kl
from ptq.observers.minmax import minmax
from ptq.observers.mse import mse
from ptq.observers.observer import Observer
from ptq.observers.percentile import percentile
from ptq.observers.stats import TensorStats


def _remembering(name: str, observer: Observer) -> Observer:
    """The observer, asked once for each range: a plan is solved several times on the same statistics."""

    def observe(stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        key = (name, qtype, symmetric)
        if key not in stats.ranges:
            stats.ranges[key] = observer(stats, qtype, symmetric=symmetric)
        return stats.ranges[key]

    return observe


_USUAL = {"minmax": minmax, "percentile": percentile(), "kl": kl(), "mse": mse}
OBSERVERS: Mapping[str, Observer] = MappingProxyType(
    {name: _remembering(name, observer) for name, observer in _USUAL.items()}
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
