"""One primitive: a job runs on shards of the samples, wherever an executor runs it, and results merge exactly.

A job says what to run on a shard and how two results merge. It holds no samples: each worker reads its own. Merging
must be exact, so that any order of results gives the same bits. A shard counts once: its result is taken from one
future, whatever the executor repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

R = TypeVar("R")

SAMPLES_PER_SHARD = 32
"""Samples of a shard, where there are many: few enough that a lost shard costs little."""
_SHARDS_PER_WORKER = 64
"""Most shards for each worker; each loads the model into a session of its own."""
_WAITING_PER_WORKER = 3
"""Shards that are with the executor at once, for each worker: they bound the memory of results."""

Shard = tuple[int, int]
"""(k, n): every n-th sample from the k-th on."""


class ShardJob(Protocol[R]):
    """What runs on a shard; it is pickled."""

    def run(self, shard: Shard, content: bytes | None) -> Any:
        """A message with the result of a shard, on a worker.

        Args:
            shard: The shard.
            content: What the workers share, such as a model; None if they read it themselves.
        """
        ...

    def decode(self, message: Any) -> R:
        """The result in a message."""
        ...

    def merge(self, first: R, second: R) -> R:
        """The result of the samples of both; the same bits in any order."""
        ...


@dataclass(frozen=True)
class Workers:
    """Where shards run.

    Attributes:
        count: How many run at once.
        submit: Starts a function of a job and a shard. It passes what the workers share as a third argument.
        check: Called every second that no shard ends; raises an exception if the workers are gone.
    """

    count: int
    submit: Callable[[Callable[..., Any], ShardJob[Any], Shard], Future[Any]]
    check: Callable[[], None] = lambda: None


def count_shards(samples: int, workers: int) -> int:
    """Into how many shards a number of samples is divided for so many workers."""
    wanted = max(workers, -(-samples // SAMPLES_PER_SHARD))
    return max(1, min(samples, wanted, workers * _SHARDS_PER_WORKER))


def run_job(job: ShardJob[Any], shard: Shard, content: bytes | None = None) -> Any:
    """Run a job on a shard; this is what an executor is given, because it pickles by name."""
    return job.run(shard, content)


def map_shards(
    job: ShardJob[R],
    shards: Iterable[Shard],
    workers: Workers,
    after: Callable[[R, R], None],
    initial: R | None = None,
) -> R | None:
    """Run a job on shards, and merge the results as they arrive.

    Args:
        job: The job.
        shards: The shards.
        workers: Where they run.
        after: Called with the result of each shard, and with all merged so far. An exception cancels the rest.
        initial: The result of shards that ran before.

    Returns:
        The merged result; None without any shard.

    Raises:
        Exception: What the job raises; of several errors that are known, that of the first shard.
    """
    remaining, merged = enumerate(shards), initial
    waiting: dict[Future[Any], int] = {}
    try:
        while True:
            while len(waiting) < _WAITING_PER_WORKER * workers.count:
                following = next(remaining, None)
                if following is None:
                    break
                waiting[workers.submit(run_job, job, following[1])] = following[0]
            if not waiting:
                return merged
            done = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED).done
            if not done:
                workers.check()
            for future in sorted(done, key=waiting.__getitem__):
                del waiting[future]
                result = job.decode(future.result())
                merged = result if merged is None else job.merge(merged, result)
                after(result, merged)
    finally:
        for future in waiting:
            future.cancel()
