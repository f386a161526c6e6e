"""Magnitudes of channels before and after a change, as coordinates that a template draws as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 340, 96


@dataclass(frozen=True)
class Channels:
    """Two outlines of magnitudes by channel, on one logarithmic scale.

    Attributes:
        label: What it shows, for readers that see no picture.
        before: Outline before the change.
        after: Outline after it.
        lo: The least magnitude of the picture.
        hi: The largest one.
        count: Number of channels.
    """

    kind: ClassVar[str] = "channels"
    label: str
    before: str
    after: str
    lo: float
    hi: float
    count: int
    width: int = WIDTH
    height: int = HEIGHT


def build_channels(label: str, before: Sequence[float], after: Sequence[float]) -> Channels:
    """Draw the magnitudes of channels.

    Args:
        label: What the picture shows.
        before: Magnitude of each channel before the change, positive.
        after: The same after it.
    """
    logs = [
        np.log10(np.maximum(np.asarray(values, np.float64), 1e-12)) for values in (before, after)
    ]
    low = float(min(values.min() for values in logs))
    high = float(max(values.max() for values in logs))
    span = (high - low) or 1.0
    step = WIDTH / len(before)

    def outline(values: NDArray[np.float64]) -> str:
        heights = HEIGHT - 2 - (values - low) / span * (HEIGHT - 4)
        steps = (f"V{height:.1f}H{(k + 1) * step:.4g}" for k, height in enumerate(heights))
        return f"M0 {heights[0]:.1f}{''.join(steps)}"

    return Channels(label, outline(logs[0]), outline(logs[1]), 10**low, 10**high, len(before))
