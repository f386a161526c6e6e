"""A histogram with thresholds, as coordinates that a template draws as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

WIDTH, HEIGHT = 340, 96


@dataclass(frozen=True)
class Threshold:
    """The range of one method.

    Attributes:
        method: Name of the method.
        lo: Its low end.
        hi: Its high end.
        chosen: Whether the model has it.
    """

    method: str
    lo: float
    hi: float
    chosen: bool = False

    @property
    def text(self) -> str:
        """The method and its range in words."""
        return f"{self.method} {self.lo:.3g} … {self.hi:.3g}"


@dataclass(frozen=True)
class Histogram:
    """Counts of values in equal intervals, drawn on a logarithmic scale.

    Attributes:
        label: What it shows, for readers that see no picture.
        lo: Left end of the picture.
        hi: Right end of the picture.
        path: Outline of the bars.
        thresholds: The range of each method.
    """

    kind: ClassVar[str] = "histogram"
    label: str
    lo: float
    hi: float
    path: str
    thresholds: tuple[Threshold, ...]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def ends(self) -> list[tuple[Threshold, tuple[float, ...]]]:
        """Pixels of the ends of each range that lie in the picture; the chosen range comes last."""
        span = (self.hi - self.lo) or 1.0
        shown = sorted(self.thresholds, key=lambda t: t.chosen)
        return [
            (t, tuple(round((end - self.lo) / span * WIDTH, 1) for end in (t.lo, t.hi) if self._shows(end)))
            for t in shown
        ]  # fmt: skip

    def _shows(self, value: float) -> bool:
        return self.lo <= value <= self.hi


def build_histogram(
    label: str, lo: float, hi: float, counts: Sequence[float], thresholds: Sequence[Threshold]
) -> Histogram:
    """Draw counts.

    Args:
        label: What the histogram shows.
        lo: Low end of the first interval.
        hi: High end of the last interval.
        counts: Number of values in each interval.
        thresholds: The range of each method.
    """
    heights = np.log1p(np.asarray(counts, np.float64))
    heights *= (HEIGHT - 4) / max(heights.max(initial=0.0), 1e-9)
    step = WIDTH / max(len(heights), 1)
    outline = [f"M0 {HEIGHT}"]
    for index, height in enumerate(heights):
        outline.append(f"V{HEIGHT - height:.0f}H{(index + 1) * step:.4g}")
    outline.append(f"V{HEIGHT}Z")
    return Histogram(label, lo, hi, "".join(outline), tuple(thresholds))
