"""How much of the scores all samples have in common: numbers, such as landmarks, hardly differ between samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.tasks.task import EXAMPLES


class CommonScores:
    """Sums scores of samples, each less its mean, which decides no class."""

    def __init__(self) -> None:
        """Without samples."""
        self._sum: NDArray[np.float64] | None = None
        self._energy, self._count = 0.0, 0

    def add(self, scores: NDArray[Any]) -> None:
        """Add one sample; another number of scores, or one that is not finite, leaves it out."""
        values = np.asarray(scores, np.float64).reshape(-1)
        if not np.isfinite(values).all() or (
            self._sum is not None and self._sum.size != values.size
        ):
            return
        values = values - values.mean()
        self._sum = values if self._sum is None else self._sum + values
        self._energy += float(values @ values)
        self._count += 1

    def measure_share(self) -> float:
        """Share of the energy that the mean over samples holds, 0 to 1; 0 of too few samples."""
        if self._sum is None or self._count < EXAMPLES or not self._energy:
            return 0.0
        return float(self._sum @ self._sum) / self._count / self._energy
