"""Whether other processes take samples of a stage, and how many at once: one rule, from measured times."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

LEAST_GAIN = 2.0
"""How many times as long as opening a job and moving a result its other samples must take, before processes open it
too: both compete."""
_OPENING_SECONDS = 0.25
"""What opening a job takes if that was not measured: to load a network of 20 MB."""
_MOVED_BYTES = 2e8
"""Bytes of a result that are pickled, sent, read and merged in a second: measured 240 to 430 MB on a busy machine."""
_PART_SHARE = 8
"""How many times as long as moving its result a part should take."""


@dataclass(eq=False)
class SharingGain:
    """What this process has measured of a job.

    Attributes:
        opening: Seconds to open it.
        each: Seconds for each sample of the latest part; 0 before the first one.
        moving: Seconds to bring the result of a part from another process.
    """

    opening: float = _OPENING_SECONDS
    each: float = 0.0
    moving: float = 0.0

    def record(self, seconds: float, samples: int, result: Any) -> None:
        """Take the time of a part of so many samples. The size of its result is found once."""
        if not self.each:
            self.moving = count_bytes(result) / _MOVED_BYTES
        self.each = max(seconds, 1e-9) / max(samples, 1)

    def pays(self, samples: int) -> bool:
        """Whether other processes should take some of so many samples."""
        return samples * self.each > LEAST_GAIN * (self.opening + self.moving)

    def smallest_part(self, samples: int, processes: int) -> int:
        """Samples of a part at least, of so many in all: moving must cost little, and each process gets some."""
        wanted = _PART_SHARE * self.moving / self.each if self.each else 0.0
        return int(min(wanted, -(-samples // processes)))


def count_bytes(result: Any) -> int:
    """Bytes of a result when it is pickled; its arrays are not copied for this."""
    sizes: list[int] = []
    rest = pickle.dumps(
        result, protocol=5, buffer_callback=lambda buffer: sizes.append(buffer.raw().nbytes)
    )
    return len(rest) + sum(sizes)
