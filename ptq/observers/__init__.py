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


def _with_cache(name: str, observer: Observer) -> Observer:
    """The observer, asked once for each range: a plan is solved several times on the same statistics."""

    def observe(stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        key = (name, qtype, symmetric)
        if key not in stats.range_cache:
            stats.range_cache[key] = observer(stats, qtype, symmetric=symmetric)
        return stats.range_cache[key]

    return observe


_DEFAULTS = {"minmax": minmax, "percentile": percentile(), "kl": kl(), "mse": mse}
OBSERVERS: Mapping[str, Observer] = MappingProxyType(
    {name: _with_cache(name, observer) for name, observer in _DEFAULTS.items()}
)
"""Every observer with its usual parameters."""


def get_observer(name: str) -> Observer:
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
    "get_observer",
    "kl",
    "minmax",
    "mse",
    "percentile",
]
