"""Observer: a range method, which chooses the range of a tensor from its statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ptq.core.types import QType, Range
from ptq.observers.stats import TensorStats


class Observer(Protocol):
    """Chooses a tensor's range from its statistics."""

    def __call__(self, stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        """Choose the range.

        Args:
            stats: Statistics of the tensor.
            qtype: The integers that the range will be mapped to.
            symmetric: Whether the scale will be symmetric about 0. The larger end of the range is then the
                threshold.

        Returns:
            A range that contains 0. Apart from 0 it lies inside the observed extremes. It is [0, 0] if all values
            are 0.

        Raises:
            StatsError: The tensor has no finite value.
        """
        ...


@dataclass(frozen=True)
class CachedObserver:
    """An observer that keeps its ranges in `TensorStats.ranges`.

    Attributes:
        name: Name of the range method; the key in the cache.
        observer: The observer that chooses a range which is not in the cache.
    """

    name: str
    observer: Observer

    def __call__(self, stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        """Choose the range, or take it from the cache."""
        return stats.ranges.get(
            self.name, qtype, symmetric, lambda: self.observer(stats, qtype, symmetric=symmetric)
        )
