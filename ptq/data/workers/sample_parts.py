"""Parts of samples: by their place in a source that each process can open, else the samples themselves."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from ptq.core.run_options import SizedIterable
from ptq.data.sample import FoundSamples, Sample, Samples
from ptq.data.workers.sharing_gain import SharingGain

R = TypeVar("R")

Shard = tuple[int, int]
"""(k, n): every n-th sample from the k-th on."""
_READ_SAMPLES, _SENT_SAMPLES = 64, 8
"""Samples of a part at most that a process reads, and that are sent themselves, unless a job wants more."""


@dataclass(frozen=True)
class Part:
    """Some consecutive samples of a set.

    Attributes:
        samples: They can be read once.
        count: How many there are, with bad ones; 0 if the part is the whole set.
        first: The number of the first one in the set.
        arguments: What varies by sample; empty if nothing does.
    """

    samples: SizedIterable[Sample]
    count: int
    first: int = 0
    arguments: Sequence[Any] = ()

    def run(self, runner: Callable[[Part], R]) -> tuple[R, FoundSamples | None]:
        """The result of a job that is open, and what reading the samples has shown; here or in another process."""
        if not isinstance(self.samples, Samples):
            return runner(self), None
        return runner(replace(self, samples=GoodSamples(self.samples))), self.samples.found


@dataclass(frozen=True, eq=False)
class GoodSamples:
    """Samples of a part, which may all be bad.

    Attributes:
        samples: They, and the bad ones.
    """

    samples: Samples

    def __iter__(self) -> Iterator[Sample]:
        return self.samples.read_good()

    def __len__(self) -> int:
        return len(self.samples)


def can_find_samples(samples: SizedIterable[Sample]) -> bool:
    """Whether other processes find the samples by their places at once."""
    origin = samples.origin if isinstance(samples, Samples) else None
    return origin is not None and origin.finds_samples


class PartCutter:
    """Cuts samples into parts: by their place if other processes find it at once, else the samples themselves.

    A bad sample that is left out has its place in a part, so that the same samples share a part either way.

    Attributes:
        has_places: Whether parts are places.
        most: The most samples of a part, unless a job wants more.
        remaining: How many samples are left at most.
        is_empty: Whether there was no good sample so far.
    """

    def __init__(
        self, samples: SizedIterable[Sample], arguments: Sequence[Any], *, alone: bool
    ) -> None:
        self._samples, self._arguments = samples, arguments
        self.has_places = not alone and can_find_samples(samples)
        self._stream: Iterator[Sample | None] = iter(())
        if not self.has_places:
            self._stream = samples.read_each() if isinstance(samples, Samples) else iter(samples)
        self._taken = 0
        self.remaining = sys.maxsize if alone else len(samples)
        self.is_empty = True
        self.most = _READ_SAMPLES if self.has_places else _SENT_SAMPLES

    def take(self, size: int) -> Part | None:
        """The next part of so many samples; None if there is none."""
        first, end = self._taken, self._taken + min(size, self.remaining)
        part: SizedIterable[Sample]
        if isinstance(self._samples, Samples) and self.has_places:
            part = self._samples.subset(range(first, end))
        else:
            each = list(itertools.islice(self._stream, end - first))
            end = first + len(each)
            part = [sample for sample in each if sample is not None]
            self.is_empty &= not part
        if first == end:
            self.remaining = 0
            return None
        self._taken, self.remaining = end, self.remaining - (end - first)
        return Part(part, end - first, first, self._arguments[first:end])

    def record(self, part: Part, found: FoundSamples | None) -> None:
        """Take what reading a part has shown."""
        if found is None or not isinstance(self._samples, Samples):
            return
        self._samples.record(found)
        self.is_empty &= len(found.bad) == part.count


class Parts(Protocol):
    """Parts that are taken one after the other."""

    @property
    def remaining(self) -> int:
        """How many samples or parts are left at most."""
        ...

    @property
    def is_near_end(self) -> bool:
        """Whether a worker should get no second part."""
        ...

    @property
    def samples_left(self) -> int:
        """How many samples are left at most."""
        ...

    def take(self, *, first: bool = False, alone: bool = False) -> Part | None:
        """The next part, a small one if it is the first, a large one if no other process works; None at the end."""
        ...


@dataclass(eq=False)
class ConsecutiveParts:
    """Parts of consecutive samples: without ``most`` about half of what is left, divided among all processes.

    They are at least so large that moving their results costs little.
    """

    cut: PartCutter
    least: int
    most: int | None
    processes: int
    gain: SharingGain

    def __post_init__(self) -> None:
        self._total = self.cut.remaining

    @property
    def remaining(self) -> int:
        """How many samples or parts are left at most."""
        return self.cut.remaining

    @property
    def is_near_end(self) -> bool:
        """Whether a worker should get no second part."""
        return self.cut.remaining <= 4 * self._smallest

    @property
    def samples_left(self) -> int:
        """How many samples are left at most."""
        return self.cut.remaining

    def take(self, *, first: bool = False, alone: bool = False) -> Part | None:
        """The next part, of the fewest samples if it is the first; None if there is none."""
        size = self.least
        if not first or self.processes == 1:
            share = 1 if alone else 2 * self.processes
            size = max(self._smallest, self.cut.remaining // share)
        limit = self.cut.most if self.most is None else self.most
        return self.cut.take(min(size - size % self.least, limit)) if self.cut.remaining else None

    @property
    def _smallest(self) -> int:
        if self.most is not None or self.processes == 1:
            return self.least
        return max(self.least, self.gain.smallest_part(self._total, self.processes))


@dataclass(eq=False)
class ShardParts:
    """Shards of samples; the number of a part is that of its shard."""

    samples: Samples
    shards: Sequence[Shard]
    processes: int
    taken: int = 0

    @property
    def remaining(self) -> int:
        """How many samples or parts are left at most."""
        return len(self.shards) - self.taken

    @property
    def is_near_end(self) -> bool:
        """Whether a worker should get no second part."""
        return self.remaining <= 2 * self.processes

    @property
    def samples_left(self) -> int:
        """How many samples the other shards have."""
        return self.remaining * len(self.samples) // max(len(self.shards), 1)

    def take(self, *, first: bool = False, alone: bool = False) -> Part | None:
        """The next shard; None if there is none."""
        if not self.remaining:
            return None
        shard = self.samples.shard(*self.shards[self.taken]).as_unread()
        self.taken += 1
        return Part(shard, len(shard), self.taken - 1)
