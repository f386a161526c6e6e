"""A part of the samples that runs, or is to run."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ptq.core.errors import DataError
from ptq.data.workers.pool import Worker
from ptq.data.workers.sample_parts import Part


@dataclass(eq=False)
class WaitingPart:
    """A part whose result waits for earlier ones.

    Attributes:
        part: The part.
        worker: The worker that has it; None for this process.
        future: Its message; None for this process.
        message: What this process found, the result or an error; None if it did not run the part yet.
    """

    part: Part
    worker: Worker | None = None
    future: Future[Any] | None = None
    message: Any = None

    @property
    def is_done(self) -> bool:
        """Whether the worker has ended it, or this process has it."""
        return self.future is None or self.future.done()

    @property
    def is_open(self) -> bool:
        """Whether this process is to run it, and has not."""
        return self.future is None and self.message is None


def has_bad_samples(message: Any) -> bool:
    """Whether a sample of a part failed or was left out; then it runs again in this process."""
    skipped = isinstance(message, tuple) and message[1] is not None and bool(message[1].bad)
    return isinstance(message, DataError) or skipped
