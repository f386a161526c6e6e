"""Whether other processes take samples of a stage, and how many at once: one rule, from measured times."""

from __future__ import annotations

import io
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

MIN_GAIN = 5.0
"""How many times as long as opening a job its other samples must take, before one process more opens it: that halves
their time at best. This process writes the job first, and the other one reads and checks it. Measured with 37 MB of
weights: 0.12 s and 0.09 s, where opening takes 0.3 s."""
_MOVING_GAIN = 6.0
"""How many times as long as moving a result they must take in addition. A second result takes memory that the system
clears first: 37 samples with covariances of 77 MB took 2.3 s of the processor in two processes, 1.8 s in one."""
_EXPECTED_AGAIN = 0.25
"""The share of the time of earlier sets of samples that others will probably take: a search may end at any time."""
_OPENING_SECONDS = 0.25
"""What opening a job takes if that was not measured: to load a network of 20 MB."""
_MOVED_BYTES = 2e8
"""Bytes of a result that are pickled, sent, read and merged in a second: measured 240 to 430 MB on a busy machine."""
_WARM_PARTS = 4
"""Parts after which a sample takes its usual time."""
_PART_SHARE = 8
"""How many times as long as moving its result a part should take."""


@dataclass(eq=False)
class SharingGain:
    """What this process has measured of a job.

    Attributes:
        opening: Seconds to open it.
        each: Seconds for each sample of the latest part; 0 before the first one.
        moving: Seconds to bring the result of a part from another process.
        spent: Seconds of all parts that this process has run.
        before: The same, before the current set of samples.
        parts: How many parts these were.
    """

    opening: float = _OPENING_SECONDS
    each: float = 0.0
    moving: float = 0.0
    spent: float = 0.0
    before: float = 0.0
    parts: int = 0

    @property
    def usual(self) -> float:
        """Seconds for each sample once some parts have run, as the first ones are slower; 0 before."""
        return self.each if self.parts >= _WARM_PARTS else 0.0

    def start(self) -> None:
        """Start another set of samples."""
        self.before = self.spent

    def record(self, seconds: float, samples: int, result: Any) -> None:
        """Take the time of a part of so many samples. The size of its result is found once."""
        if not self.each:
            self.moving = estimate_moving(count_bytes(result))
        self.each = max(seconds, 1e-9) / max(samples, 1)
        self.spent += seconds
        self.parts += 1

    def pays(self, samples: int, guess: float = 0.0) -> bool:
        """Whether other processes should take some of so many samples.

        Args:
            samples: How many are left.
            guess: Seconds for each, before the first part.
        """
        least = MIN_GAIN * self.opening + _MOVING_GAIN * self.moving
        return _EXPECTED_AGAIN * self.before + samples * (self.each or guess) > least

    def smallest_part(self, samples: int, processes: int) -> int:
        """Samples of a part at least, of so many in all: moving must cost little, and each process gets some."""
        wanted = _PART_SHARE * self.moving / self.each if self.each else 0.0
        return int(min(wanted, -(-samples // processes)))


def estimate_moving(size: int) -> float:
    """Seconds to bring a result of so many bytes from another process."""
    return size / _MOVED_BYTES


def count_bytes(result: Any) -> int:
    """Bytes of a result when it is pickled; its arrays are not copied for this."""
    sizes, rest = list[int](), io.BytesIO()
    pickler = ForkingPickler(rest, 5, True, lambda buffer: sizes.append(buffer.raw().nbytes))
    pickler.dump(result)
    return rest.tell() + sum(sizes)
