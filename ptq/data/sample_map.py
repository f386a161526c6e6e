"""One primitive: a job runs on parts of the samples, in this process and those of a pool; results keep order.

A job says what to run. It is opened once in each process. A part is some consecutive samples: by their place in a
source that each process can open, else the samples themselves. The results arrive in the order of the samples,
whoever computed them, so what follows adds them up in one order, on any number of processes. Sums that are exact may
be added up within a part too; then the sizes of the parts do not matter.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from ptq.core.errors import DataError, PtqError
from ptq.core.run_options import RunOptions, SizedIterable, Stage, TrackedItems
from ptq.data.sample import Sample, Samples
from ptq.data.sample_parts import Part, PartCutter
from ptq.data.worker_pool import ProcessPool, SharedJob, Worker
from ptq.kernels.thread_pool import limit_threads

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_WAITING_PARTS = 4
"""Parts for each process that may wait for an earlier one; they bound the memory of results."""


class SampleJob(Protocol[R_co]):
    """What runs on samples; it can be pickled."""

    def open(self) -> Callable[[Part], R_co]:
        """What runs a part; it may load models, and keep what later parts need."""
        ...


class SampleMap(Generic[R]):
    """A job, open in this process and in those of the pool."""

    def __init__(
        self, job: SampleJob[R], run: RunOptions, opened: Callable[[Part], R] | None = None
    ) -> None:
        """Open nothing yet.

        Args:
            job: The job.
            run: How the job runs here, with the pool.
            opened: The job, if it is open in this process already.
        """
        self._job, self._opened = job, opened
        self._pool = cast(ProcessPool | None, run.pool)
        self._shared: SharedJob | None = None

    def __del__(self) -> None:
        if self._pool is not None and self._shared is not None:
            self._pool.close_job(self._shared)

    def run_here(self, part: Part) -> R:
        """Run a part in this process."""
        if self._opened is None:
            self._opened = self._job.open()
        return self._opened(part)

    def map(
        self,
        samples: SizedIterable[Sample],
        *,
        least: int = 1,
        most: int | None = 1,
        arguments: Sequence[Any] = (),
        in_turn: bool = False,
    ) -> Iterator[R]:
        """The results of parts of the samples, in the order of the samples.

        Args:
            samples: The samples, or `RunOptions.track` of them.
            least: The fewest samples of a part but the last.
            most: The most samples of a part. None if the sizes of the parts do not matter: without other processes
                there is one part then.
            arguments: What varies by sample; empty if nothing does.
            in_turn: The processes take parts in turn, so that each gets the same samples in each call.

        Raises:
            PtqError: What the job raises on the first part that fails.
        """
        if self._pool is None and most is None:
            yield self.run_here(Part(samples, 0, 0, arguments))
            return
        stage: Stage | None = None
        if isinstance(samples, TrackedItems):
            stage = samples.run.start_stage(samples.stage, len(samples.items))
            samples = samples.items
        cut = PartCutter(samples, arguments, alone=self._pool is None)
        for part, result in self._run_parts(cut, least, most, in_turn=in_turn):
            yield result
            if stage is not None:
                for _ in range(part.count):
                    stage()
        if isinstance(samples, Samples):
            if cut.has_places:
                samples.skipped = cut.skipped
            samples.require_good(empty=cut.is_empty)
        if stage is not None:
            stage.end()

    def _run_parts(
        self, cut: PartCutter, least: int, most: int | None, *, in_turn: bool
    ) -> Iterator[tuple[Part, R]]:
        waiting = deque[_Waiting]()
        try:
            while True:
                self._submit_parts(cut, least, most, waiting, in_turn=in_turn)
                if waiting and waiting[0].is_done:
                    yield self._take(cut, waiting.popleft())
                elif cut.remaining and len(waiting) <= _WAITING_PARTS * self._count:
                    part = self._next_part(cut, least, most)
                    if part is not None:
                        waiting.append(_Waiting(part, message=self._try_here(part)))
                elif waiting:
                    yield self._take(cut, waiting.popleft())
                else:
                    return
        finally:
            for one in waiting:
                if one.future is not None:
                    one.future.cancel()

    def _submit_parts(
        self,
        cut: PartCutter,
        least: int,
        most: int | None,
        waiting: deque[_Waiting],
        *,
        in_turn: bool,
    ) -> None:
        """Give parts to the processes that are ready: to each one more than it runs, except near the end."""
        workers = self._pool.ready() if self._pool is not None and cut.remaining else ()
        if in_turn and workers:
            turns = itertools.cycle([None, *workers])
            while (part := cut.take(least)) is not None:
                waiting.append(self._submit(part, next(turns)))
            return
        for worker in workers:
            while cut.remaining and worker.waiting < (2 if cut.remaining > 4 * least else 1):
                part = self._next_part(cut, least, most)
                if part is not None:
                    waiting.append(self._submit(part, worker))

    @property
    def _count(self) -> int:
        return 1 if self._pool is None else self._pool.count

    def _next_part(self, cut: PartCutter, least: int, most: int | None) -> Part | None:
        """The next part; without ``most`` about half of what is left, divided among all processes."""
        size = max(least, cut.remaining // (2 * self._count))
        limit = cut.most if most is None else most
        return cut.take(min(size - size % least, limit))

    def _submit(self, part: Part, worker: Worker | None) -> _Waiting:
        if worker is None:
            return _Waiting(part)
        assert self._pool is not None
        if self._shared is None:
            self._shared = self._pool.share(self._job)
        return _Waiting(part, worker, worker.submit(self._shared, part))

    def _try_here(self, part: Part) -> Any:
        """The result of a part, or the error: that of an earlier part comes first."""
        try:
            with limit_threads(1 if self._pool is not None and self._pool.ready() else None):
                return part.run(self.run_here)
        except PtqError as error:
            return error

    def _take(self, cut: PartCutter, one: _Waiting) -> tuple[Part, R]:
        """The result of a part; it runs again here if its process ended, or could not read a sample."""
        message = one.message
        if one.future is not None:
            assert self._pool is not None
            assert one.worker is not None
            try:
                message = one.future.result()
                if isinstance(message, DataError) or _has_skipped(message):
                    message = None
            except BrokenProcessPool:
                self._pool.drop(one.worker)
        if message is None:
            message = self._try_here(one.part)
        if isinstance(message, Exception):
            raise message
        result, seen = message
        cut.record(one.part, seen)
        return one.part, result


def _has_skipped(message: Any) -> bool:
    return isinstance(message, tuple) and message[1] is not None and bool(message[1].skipped)


@dataclass(eq=False)
class _Waiting:
    """A part whose result waits for earlier ones.

    Attributes:
        part: The part.
        worker: The process that has it; None for this one.
        future: Its message; None for this process.
        message: What this process found, the result or an error; None if it did not run the part yet.
    """

    part: Part
    worker: Worker | None = None
    future: Future[Any] | None = None
    message: Any = None

    @property
    def is_done(self) -> bool:
        return self.future is None or self.future.done()
