"""How a job runs: threads, batch sizes, and who is informed of its progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar, overload

import numpy as np

from ptq.core.errors import Cancelled, UsageError
from ptq.core.option_checks import MAX_THREADS, parse_bytes, require_callable, require_count
from ptq.core.wording import plural

Progress = Callable[[str, int | None], Callable[[], bool | None]]
"""Called with a stage and its number of steps (None if unknown); returns the function to call after each step.

The job stops with `ptq.Cancelled` if this function returns False, or if one of the two raises an exception.
If it has a method ``expect``, that gets the stages to come, each an `ExpectedStage`, before they start.
"""

MemoryOption = str | int
"""A limit of memory: a number of bytes, or a text as ``500MB`` or ``2 GiB``."""
MIN_MEMORY = 10**6
"""A smaller limit is no limit: its unit was forgotten."""

_LOG = logging.getLogger("ptq")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class SizedIterable(Protocol[T_co]):
    """A collection that can be read more than once and knows its length."""

    def __iter__(self) -> Iterator[T_co]:
        """Read it from the start."""
        ...

    def __len__(self) -> int:
        """The number of items."""
        ...


class WorkerPool(Protocol):
    """Processes that run parts of the samples; see `ptq.data.workers.worker_pool`."""

    count: int
    works_here: bool

    def expect(self, runs: int) -> None:
        """Take the number of runs of one sample to come, in all stages."""
        ...

    def prepare(self, seconds: float, samples: int) -> None:
        """Start workers if long work is expected; see `ptq.data.workers.pool.Pool.prepare`."""
        ...


@dataclass(frozen=True)
class ExpectedStage:
    """A stage that is probably to come.

    Attributes:
        name: Its name when it starts.
        runs: An estimate of its time, as a number of float runs of one sample.
    """

    name: str
    runs: int


class Stage:
    """A running stage; call it after each step.

    Its start and its end are logged at INFO, its steps at DEBUG.
    """

    def __init__(self, name: str, steps: int | None, progress: Progress | None) -> None:
        """Announce the stage; raise `Cancelled` if the callback raises an exception."""
        self._name, self._steps, self._done, self._ended = name, steps, 0, False
        self._start = time.monotonic()
        count = "" if steps is None else f" ({plural(steps, 'step')})"
        _LOG.info("%s: started%s", name, count)
        self._advance: Callable[[], bool | None] = lambda: None
        if progress is not None:
            self._advance = _guard(name, lambda: progress(name, steps))

    def __call__(self) -> None:
        """Report one step; raise `Cancelled` if the callback returns False or raises an exception."""
        answer = _guard(self._name, self._advance)
        if isinstance(answer, (bool, np.bool_)) and not answer:
            raise Cancelled(f"cancelled by the progress callback ({self._name})")
        self._done += 1
        _LOG.debug("%s: step %d", self._name, self._done)
        if self._done == self._steps:
            self.end()

    def end(self) -> None:
        """Log the end, once; a stage of known length ends with its last step at the latest."""
        if not self._ended:
            self._ended = True
            seconds = time.monotonic() - self._start
            _LOG.info("%s: done (%s, %.1f s)", self._name, plural(self._done, "step"), seconds)


def _guard(stage: str, callback: Callable[[], T]) -> T:
    """What the callback returns; raise `Cancelled` if it raises an exception."""
    try:
        return callback()
    except Cancelled:
        raise
    except Exception as error:
        raise Cancelled(
            f"the progress callback raised {type(error).__name__} ({stage}): {error}"
        ) from error


@dataclass(frozen=True)
class RunOptions:
    """How a job runs; no option changes its result.

    Attributes:
        threads: Threads of ONNX Runtime for one operator; 0 is one a core.
        calibration_batch: Samples that are counted together during calibration.
        evaluation_batch: Samples that run at once when accuracy is measured, if the model takes any number.
        progress: Called with each stage and its steps; None for nobody.
        memory: Most bytes that the process takes while it calibrates; None for no limit.
        pool: What runs samples: this process with others, or a cluster without this one. None for this one alone.
    """

    threads: int = 0
    calibration_batch: int = 16
    evaluation_batch: int = 8
    progress: Progress | None = None
    memory: int | None = None
    pool: WorkerPool | None = None

    def __post_init__(self) -> None:
        threads = require_count("threads", self.threads, most=MAX_THREADS)
        object.__setattr__(self, "threads", threads)
        for batch in ("calibration_batch", "evaluation_batch"):
            object.__setattr__(self, batch, require_count("batch", getattr(self, batch), least=1))
        if self.progress is not None:
            require_callable("progress", self.progress)

    def for_job(self) -> RunOptions:
        """What another process needs of these options."""
        return replace(self, progress=None, pool=None)

    @property
    def jobs_at_once(self) -> int:
        """How many jobs this process may run at once: it has the threads of the processes that wait for it."""
        return self.pool.count if self.pool is not None and self.pool.works_here else 1

    def expect(self, stages: Sequence[ExpectedStage]) -> None:
        """Announce the stages to come, in their order, to the pool and to a callback that has a method ``expect``.

        Raises:
            Cancelled: The method raises an exception.
        """
        if self.pool is not None:
            self.pool.expect(sum(stage.runs for stage in stages))
        announce = getattr(self.progress, "expect", None)
        if announce is not None:
            _guard("planning", lambda: announce(stages))

    def start_stage(self, stage: str, steps: int | None) -> Stage:
        """Announce a stage of so many steps; call the result after each step.

        Raises:
            Cancelled: The callback raises an exception; the result raises it too.
        """
        return Stage(stage, steps, self.progress)

    def track(self, items: SizedIterable[T_co], stage: str) -> SizedIterable[T_co]:
        """The items, with progress reported after each; reading them raises `Cancelled` as `start_stage` does."""
        if self.progress is None and not _LOG.isEnabledFor(logging.INFO):
            return items
        return TrackedItems(items, stage, self)


@dataclass(frozen=True, eq=False)
class TrackedItems(Generic[T_co]):
    """Items whose reading is a stage.

    Attributes:
        items: The items.
        stage: The name of the stage.
        run: Whom it is reported to.
    """

    items: SizedIterable[T_co]
    stage: str
    run: RunOptions

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T_co]:
        advance = self.run.start_stage(self.stage, len(self.items))
        for item in self.items:
            yield item
            advance()
        advance.end()


@overload
def untrack_items(items: SizedIterable[T_co]) -> SizedIterable[T_co]: ...


@overload
def untrack_items(items: Iterable[T_co]) -> Iterable[T_co]: ...


def untrack_items(items: Iterable[T_co]) -> Iterable[T_co]:
    """The items, without the stage that `RunOptions.track` gave them."""
    return items.items if isinstance(items, TrackedItems) else items


def parse_memory(option: MemoryOption) -> int:
    """Number of bytes of a limit of memory.

    Raises:
        UsageError: It is no size, or too small to be meant.
    """
    size = parse_bytes(option) if isinstance(option, str) else require_count("memory", option)
    if size is None or size < MIN_MEMORY:
        raise UsageError(f"memory {option!r} is not a size such as 500MB", "memory")
    return size


DEFAULT_RUN = RunOptions()
