"""A job that adds up what it finds: each process keeps the sum of its own parts, and sends it at the end.

So parts cost little and may be small, and no process waits for long. What another process has added counts only once
its sum has arrived: where it ends or fails before, its parts run again in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions, SizedIterable, untrack_items
from ptq.data.sample import FoundSamples, Sample, Samples
from ptq.data.workers.pool import Worker
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part, can_find_samples
from ptq.data.workers.sharing_gain import count_bytes, estimate_moving
from ptq.data.workers.waiting_part import WaitingPart

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_MIN, _MAX = 4, 64
"""Samples of a part."""
_HELD_PARTS = 64
"""Parts that a process adds up at most before it sends their sum: so few are remembered, and run again."""


class Accumulator(Protocol[R_co]):
    """Adds up what it finds in samples. The sums of several can be merged in any order, to the same bits."""

    @property
    def total(self) -> R_co:
        """The sum so far, without samples that wait to run together with others."""
        ...

    def add(self, samples: SizedIterable[Sample]) -> None:
        """Add samples; some may wait."""
        ...

    def collect(self) -> R_co:
        """The sum of all samples since the last time."""
        ...

    def discard(self) -> None:
        """Begin anew: what was added so far runs again elsewhere."""
        ...


class AccumulatingJob(Protocol[R_co]):
    """What runs on samples and adds up; it can be pickled."""

    def open(self) -> Accumulator[R_co]:
        """What adds up; it may load models."""
        ...


@dataclass(frozen=True)
class _LastPart(Part):
    """A part after which the process sends its sum."""


@dataclass(eq=False)
class _PartAdder(Generic[R]):
    """Adds parts; the last one has the result."""

    accumulator: Accumulator[R]

    def __call__(self, part: Part) -> R | None:
        try:
            self.accumulator.add(part.samples)
            return self.accumulator.collect() if isinstance(part, _LastPart) else None
        except BaseException:
            self.accumulator.discard()
            raise


@dataclass(frozen=True, eq=False)
class _PartAdderJob(Generic[R]):
    job: AccumulatingJob[R]

    def open(self) -> _PartAdder[R]:
        return _PartAdder(self.job.open())


class AccumulatingMap(SampleMap[R | None]):
    """A job that adds up, open in this process and on the workers of the pool."""

    def __init__(self, job: AccumulatingJob[R], run: RunOptions, *, runs: int = 0) -> None:
        """Open nothing yet; see `SampleMap`."""
        super().__init__(_PartAdderJob(job), run, runs=runs)
        self._keeps_sums, self._ran = False, 0
        self._held: dict[Worker, list[Part]] = {}

    def sum_up(self, samples: SizedIterable[Sample]) -> Iterator[R]:
        """Sums of some of the samples, which together are the sum of all; each sample counts once.

        A process keeps its sum until the end if its parts can be remembered: it runs on this machine, and finds its
        samples itself.

        Args:
            samples: The samples, or `RunOptions.track` of them.

        Raises:
            PtqError: What the job raises on a part that fails.
        """
        items = untrack_items(samples)
        self._keeps_sums = self._pool is not None and self._works_here and can_find_samples(items)
        for found in self.map(samples, least=_MIN, most=_MAX if self._keeps_sums else None):
            if found is not None:
                yield found
        own = [] if self._opened is None else [WaitingPart(_LastPart([], 0))]
        others = [self._submit(_LastPart([], 0), worker) for worker in self._held]
        for one in [*own, *others]:  # the others run what waits while this process does
            while not one.is_done:
                self._wait([one])
            found, _ = self._take(one)
            if found is not None:
                yield found

    def run_here(self, part: Part) -> R | None:
        """Add a part in this process."""
        is_first = not self._gain.each
        found = super().run_here(part)
        self._ran += part.count
        if self._gain.each:  # a part leaves samples to later ones, which take their time
            self._gain.each = self._gain.spent / max(self._ran, 1)
        if is_first and isinstance(adder := self._opened, _PartAdder):
            self._gain.moving = estimate_moving(count_bytes(adder.accumulator.total))
        return found

    def _submit(self, part: Part, worker: Worker | None) -> WaitingPart:
        if worker is not None and not (
            self._keeps_sums and len(self._held.get(worker, ())) < _HELD_PARTS
        ):
            part = _LastPart(part.samples, part.count, part.first)
        return super()._submit(part, worker)

    def _take(self, one: WaitingPart) -> Any:
        """The sum if this was the last part of a process, and what reading has shown."""
        if one.worker is None or one.future is None or not self._keeps_sums:
            return super()._take(one)
        assert self._pool is not None
        message = self._pool.receive(one.worker, one.future)
        if isinstance(message, tuple):
            return self._hold(one, *message)
        if message is not None and not isinstance(message, DataError):
            raise message
        # this part first: its error may be final
        _, seen = self._run_again(Part(one.part.samples, one.part.count, one.part.first))
        for part in self._held.pop(one.worker, []):
            self._run_again(part)
        if isinstance(one.part, _LastPart):
            return self._run_again(_LastPart([], 0))[0], seen
        return None, seen

    def _hold(
        self, one: WaitingPart, found: R | None, seen: FoundSamples | None
    ) -> tuple[R | None, FoundSamples | None]:
        """Remember a part whose sum is still to come. Samples that were left out are read again in this process."""
        assert one.worker is not None
        part, bad = one.part, frozenset() if seen is None else frozenset(seen.bad)
        if bad and seen is not None and isinstance(part.samples, Samples):
            places = list(enumerate(part.samples.positions))
            again = part.samples.subset([index for index, place in places if place in bad])
            _, read = self._run_again(Part(again, len(again), part.first))
            seen.update(read)
            good = part.samples.subset([index for index, place in places if place not in bad])
            part = Part(good, len(good), part.first)
        if isinstance(one.part, _LastPart):
            self._held.pop(one.worker, None)
        else:
            self._held.setdefault(one.worker, []).append(part)
        return found, seen

    def _run_again(self, part: Part) -> Any:
        message = self._try_here(part)
        if isinstance(message, Exception):
            raise message
        return message
