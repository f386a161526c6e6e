"""One primitive: a job runs on parts of the samples, in this process and on the workers of a pool.

A job says what to run. It is opened once in each process. A part is some consecutive samples, or a shard of them: by
their place in a source that each process can open, else the samples themselves. Results of consecutive parts arrive
in the order of the samples, whoever computed them, so what follows adds them up in one order, on any number of
processes. Results of shards arrive in any order; they must merge exactly. Each part counts once, whatever a worker
repeats.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing
from itertools import islice
from math import inf
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, TypeVar, cast

from ptq.core.errors import PtqError
from ptq.core.run_options import RunOptions, SizedIterable, Stage, TrackedItems
from ptq.data.sample import Sample, Samples
from ptq.data.workers.await_worker import await_worker
from ptq.data.workers.pool import Pool, Worker
from ptq.data.workers.run_on_threads import run_on_threads
from ptq.data.workers.run_part import NO_PART, SharedJob
from ptq.data.workers.sample_job import SampleJob
from ptq.data.workers.sample_parts import (
    ConsecutiveParts,
    Part,
    PartCutter,
    Parts,
    Shard,
    ShardParts,
)
from ptq.data.workers.sharing_gain import SharingGain, estimate_moving
from ptq.data.workers.waiting_part import WaitingPart, has_bad_samples
from ptq.kernels.thread_pool import limit_threads

R = TypeVar("R")

_WAITING_PARTS = 4
"""Parts for each process that may wait for an earlier one; they bound the memory of results."""


class SampleMap(Generic[R]):
    """A job, open in this process and on the workers of the pool."""

    def __init__(
        self,
        job: SampleJob[R],
        run: RunOptions,
        opened: Callable[[Part], R] | None = None,
        *,
        runs: int = 0,
        thread_seconds: float = 0.0,
        moved_bytes: int = 0,
    ) -> None:
        """Open nothing yet.

        Args:
            job: The job.
            run: How it runs here, with the pool.
            opened: The job, if it is open in this process already.
            runs: How often the model runs on each sample at least, 0 if a search can end before: the time of earlier
                stages then says whether other processes should open the job.
            thread_seconds: Threads of this process run the job at once, and no other process opens it, if that is
                expected to take less than so many seconds. 0 if one thread alone may.
            moved_bytes: Bytes of the result of a part, until the first one is measured.
        """
        self._job, self._opened = job, opened
        self._pool, self._threads = cast(Pool | None, run.pool), run.threads or 1
        self._guess = 0.0 if self._pool is None else runs * self._pool.most_seconds
        self._thread_seconds = thread_seconds
        self._shared: SharedJob | None = None
        self._gain, self._opening = SharingGain(moving=estimate_moving(moved_bytes)), set[Worker]()

    def __del__(self) -> None:
        if self._pool is not None and self._shared is not None:
            self._pool.close_job(self._shared)

    def open_here(self) -> Callable[[Part], R]:
        """Open the job in this process, once; how long that takes says whether others should open it too."""
        if self._opened is None:
            start, self._opened = time.perf_counter(), self._job.open()
            self._gain.opening = time.perf_counter() - start
        return self._opened

    def run_here(self, part: Part) -> R:
        """Run a part in this process."""
        opened, start = self.open_here(), time.perf_counter()
        result = opened(part)
        if self._pool is not None:
            self._gain.record(time.perf_counter() - start, part.count, result)
        return result

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
        self._gain.start()
        on_threads = self._prefers_threads(len(samples))
        cut = PartCutter(samples, arguments, alone=self._pool is None or on_threads)
        parts = ConsecutiveParts(cut, least, most, self._count, self._gain)
        found = self._run_parts(parts, in_turn=in_turn)
        if on_threads:
            found = run_on_threads(self.open_here(), parts, self._count)
        with closing(found):
            for part, (result, seen) in found:
                cut.record(part, seen)
                yield result
                if stage is not None:
                    for _ in range(part.count):
                        stage()
        if isinstance(samples, Samples):
            samples.require_good(empty=cut.is_empty)
        if stage is not None:
            stage.end()

    def map_shards(self, samples: Samples, shards: Sequence[Shard]) -> Iterator[tuple[Shard, R]]:
        """The result of each shard, as they end; each process reads its own samples.

        Raises:
            PtqError: What the job raises on the first shard that fails.
        """
        parts = ShardParts(samples, shards, self._count)
        for part, (result, _) in self._run_parts(parts, in_order=False):
            yield shards[part.first], result

    def _prefers_threads(self, samples: int) -> bool:
        """Whether threads of this process run the job, which has the threads of the processes that wait for it."""
        here = self._pool is not None and self._works_here
        return here and (
            self._thread_seconds == inf or 0 < samples * self._guess < self._thread_seconds
        )

    def _run_parts(
        self, parts: Parts, *, in_order: bool = True, in_turn: bool = False
    ) -> Generator[tuple[Part, Any], None, None]:
        waiting = deque[WaitingPart]()
        most = _WAITING_PARTS * self._count
        try:
            while True:
                self._submit_parts(parts, waiting, most, in_turn=in_turn)
                # each is asked once: one that ends meanwhile must not let a later one pass
                nexts = islice(waiting, 1) if in_order else waiting
                done = next((one for one in nexts if one.is_done), None)
                if done is not None:
                    waiting.remove(done)
                    yield done.part, self._take_first(done, waiting)
                elif (
                    self._works_here
                    and len(waiting) <= most
                    and (part := self._take_own(parts)) is not None
                ):
                    waiting.append(WaitingPart(part, message=self._try_here(part)))
                elif (own := next((one for one in waiting if one.is_open), None)) is not None:
                    own.message = self._try_here(own.part)
                elif waiting:
                    self._wait(waiting)
                elif parts.remaining:
                    assert self._pool is not None
                    await_worker(self._pool)
                else:
                    return
        finally:
            for one in waiting:
                if one.future is not None and self._pool is not None:
                    self._pool.cancel(one.future)

    @property
    def _count(self) -> int:
        return 1 if self._pool is None else self._pool.count

    @property
    def _works_here(self) -> bool:
        return self._pool is None or self._pool.works_here

    def _submit_parts(
        self, parts: Parts, waiting: deque[WaitingPart], most: int, *, in_turn: bool
    ) -> None:
        """Give parts to the workers that are ready, a second one to each but near the end; all at once in turn."""
        if self._pool is not None:
            self._pool.prepare(self._gain.usual, parts.samples_left)
        pool = self._pool if self._pool is not None and self._pays(parts.samples_left) else None
        workers = pool.ready() if pool is not None and parts.remaining else ()
        if in_turn and workers:
            turns = [*([None] if self._works_here else []), *workers]
            while (part := parts.take()) is not None:
                waiting.append(self._submit(part, turns[part.first % len(turns)]))
            return
        for worker in workers:
            self._open_on(worker)
            while (
                parts.remaining
                and len(waiting) <= most
                and worker.waiting < worker.slots * (1 if parts.is_near_end else 2)
            ):
                part = parts.take()
                if part is not None:
                    waiting.append(self._submit(part, worker))

    def _take_own(self, parts: Parts) -> Part | None:
        """The next part for this process: all the rest where it is too little to share."""
        alone = self._pool is not None and not self._pays(parts.samples_left)
        first = not self._gain.each and not (alone and self._guess)
        return parts.take(first=first, alone=alone)

    def _pays(self, samples: int) -> bool:
        """Whether workers should take some of so many samples, by what this process has measured so far."""
        if not self._works_here or self._shared is not None:
            return True
        return self._gain.pays(samples, self._guess)

    def _submit(self, part: Part, worker: Worker | None) -> WaitingPart:
        if worker is None:
            return WaitingPart(part)
        content = ForkingPickler.dumps(part)
        return WaitingPart(part, worker, worker.submit(self._share(), bytes(content)))

    def _share(self) -> SharedJob:
        assert self._pool is not None
        if self._shared is None:
            self._shared = self._pool.share(self._job)
        return self._shared

    def _open_on(self, worker: Worker) -> None:
        """Let another process of this machine open the job, once; this one runs the next samples meanwhile."""
        if self._works_here and worker not in self._opening:
            self._opening.add(worker)
            worker.submit(self._share(), NO_PART)

    def _wait(self, waiting: Sequence[WaitingPart]) -> None:
        """Wait until a part ends that has not ended yet."""
        futures = [one.future for one in waiting if one.future is not None and not one.is_done]
        assert self._pool is not None
        if not wait(futures, timeout=1.0, return_when=FIRST_COMPLETED).done:
            self._pool.check()

    def _try_here(self, part: Part) -> Any:
        """The result of a part, or the error: that of an earlier part comes first. Others may compute meanwhile."""
        try:
            with limit_threads(None if self._shared is None else self._threads):
                return part.run(self.run_here)
        except PtqError as error:
            return error

    def _take_first(self, one: WaitingPart, waiting: deque[WaitingPart]) -> Any:
        """The result of a part. If it fails, earlier ones end first: the error is that of the first that fails."""
        try:
            return self._take(one)
        except PtqError:
            while earlier := [each for each in waiting if each.part.first < one.part.first]:
                first = min(earlier, key=lambda each: each.part.first)
                while not first.is_done:
                    self._wait([first])
                waiting.remove(first)
                self._take(first)
            raise

    def _take(self, one: WaitingPart) -> Any:
        """The result of a part and what reading has shown. It runs again here if a worker cannot run it."""
        message = one.message
        if one.future is not None:
            assert self._pool is not None
            message = self._pool.receive(one.worker, one.future)
            if self._works_here and has_bad_samples(message):
                message = None
        if message is None:
            message = self._try_here(one.part)
        if isinstance(message, Exception):
            raise message
        return message
