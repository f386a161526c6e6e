"""What another process does with a part of the samples: it opens the job once, reads the samples, and runs them.

Each thread of such a process opens a job for itself: not every job runs several parts at a time. What belongs to an
earlier run is freed when a part of the next run arrives.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from ptq.core.errors import PtqError, StatsError
from ptq.core.record import Record
from ptq.data.opened_sources import forget_sources
from ptq.data.workers.job_content import unpack_job
from ptq.kernels.thread_pool import limit_threads
from ptq.model.machine.maker import describe_maker, list_differences

NO_PART = b""
"""In place of a part: the job is opened, and nothing runs."""


@dataclass(frozen=True)
class SharedJob:
    """A job that other processes open.

    Attributes:
        run: The run that it belongs to; other runs have other texts.
        number: Its number in this run.
        digest: SHA-256 of its content; a process opens no other one.
        path: The file that holds it; empty if the content comes with each part.
        place: What errors say of where they occurred, such as ``on a worker: ``; empty for nothing.
        maker: The versions and the kind of processor that the process must have; None for any.
        threads: The most threads of its kernels; None for no limit.
    """

    run: str
    number: int
    digest: bytes
    path: str = ""
    place: str = ""
    maker: Record | None = None
    threads: int | None = None


@dataclass
class _Opened:
    """What a thread has opened for a run."""

    run: str
    jobs: dict[int, Callable[[Any], Any]] = field(default_factory=dict)


_opened: dict[int, _Opened] = {}
"""By the number of the thread."""
_ended: deque[str] = deque(maxlen=64)
"""Runs that ended lately. A part of theirs that has just started keeps nothing open."""
_lock = threading.Lock()


def run_part(
    job: SharedJob, open_jobs: Collection[int], part: bytes, content: bytes | None = None
) -> Any:
    """The result of a part with what reading has shown, or the error. An executor is given this: it pickles by name.

    Args:
        job: The job.
        open_jobs: The numbers of all jobs that this run still needs; the others are freed.
        part: The part, pickled; or `NO_PART`.
        content: The job as `pack_job` has packed it; None if that is in a file.
    """
    try:
        held = _hold(job.run)
        for number in held.jobs.keys() - {*open_jobs}:
            del held.jobs[number]
        with limit_threads(job.threads):
            if job.number not in held.jobs:
                held.jobs[job.number] = _open(job, content)
            return ForkingPickler.loads(part).run(held.jobs[job.number]) if part else None
    except PtqError as error:
        return type(error)(f"{job.place}{error}") if job.place else error
    except Exception as error:  # an internal error: the parent reports it
        return RuntimeError(f"in a worker: {type(error).__name__}: {error}")
    finally:
        _forget_ended(job.run)


def can_run_parts() -> bool:
    """True: a process that answers has loaded what parts need."""
    return True


def forget_run(run: str) -> None:
    """Free what the threads of this process have opened for a run."""
    with _lock:
        _ended.append(run)
        for thread in [thread for thread, held in _opened.items() if held.run == run]:
            del _opened[thread]
            forget_sources(thread)


def _forget_ended(run: str) -> None:
    """Free what this thread has opened for a run that has ended while a part of it was running."""
    thread = threading.get_ident()
    with _lock:
        if run in _ended:
            forget_sources(thread)
            if thread in _opened and _opened[thread].run == run:
                del _opened[thread]


def _hold(run: str) -> _Opened:
    """What this thread has opened for the run; what it had for another one is freed."""
    thread = threading.get_ident()
    with _lock:
        if run in _ended:
            return _Opened(run)
        if thread not in _opened or _opened[thread].run != run:
            forget_sources(thread)
            _opened[thread] = _Opened(run)
        return _opened[thread]


def _open(job: SharedJob, content: bytes | None) -> Callable[[Any], Any]:
    if job.maker is not None:
        differ = list_differences([job.maker, describe_maker()])
        if differ:
            raise StatsError(
                f"it has another version or kind of {', '.join(differ)} than this process; install the same on each"
            )
    content = Path(job.path).read_bytes() if content is None else content
    if hashlib.sha256(content).digest() != job.digest:
        where = f"{job.path}: " if job.path else "what it runs "
        raise PtqError(f"{where}changed since this run has written it; run again")
    opened: Callable[[Any], Any] = unpack_job(content).open()
    return opened
