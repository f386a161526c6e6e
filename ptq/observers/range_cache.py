"""Cache of the ranges that range methods have chosen from the statistics of one tensor.

A plan is solved several times on the same statistics. With the cache, each range is computed once.
"""

from __future__ import annotations

from collections.abc import Callable

from ptq.core.types import QType, Range


class RangeCache:
    """Ranges by range method, integer type and symmetry."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[str, QType, bool], Range] = {}

    def get(self, method: str, qtype: QType, symmetric: bool, choose: Callable[[], Range]) -> Range:
        """The cached range; ``choose`` computes it the first time."""
        key = (method, qtype, symmetric)
        if key not in self._ranges:
            self._ranges[key] = choose()
        return self._ranges[key]

    def clear(self) -> None:
        """Forget all ranges, because the statistics have changed."""
        self._ranges.clear()
