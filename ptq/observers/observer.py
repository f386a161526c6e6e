"""What is an observer, the choice of a range?"""

from __future__ import annotations

from typing import Protocol

from ptq.core.types import QType, Range
from ptq.observers.stats import TensorStats


class Observer(Protocol):
    """Chooses a tensor's range from its statistics."""

    def __call__(self, stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        """Choose the range.

        Args:
            stats: What was seen.
            qtype: The integers that the range will be mapped to.
            symmetric: Whether the scale will be symmetric about 0, with the range's larger end as threshold.

        Returns:
            A range that contains 0 and otherwise lies inside the extremes seen; [0, 0] where all was 0.

        Raises:
            StatsError: No finite value was seen.
        """
        ...
