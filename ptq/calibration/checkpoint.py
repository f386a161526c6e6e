"""The checkpoint file, from which an interrupted calibration continues.

The file holds the statistics so far, and a digest of the samples that they count: names, values, types and shapes,
in order. To continue, the calibration reads those samples again but does not run them. The file is used only if the
digest is the same. A result can therefore never mix two models, data sets, orders or preprocessings.

Format: one line, ``ptq checkpoint 1 SHA256``, then a file of statistics.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptq.core import files
from ptq.core.errors import StatsError
from ptq.core.remote import redact
from ptq.data import Sample
from ptq.observers.calibration_file import (
    CHECKPOINT_MAGIC,
    SHARD_CHECKPOINT_MAGIC,
    Calibration,
    from_bytes,
)

if TYPE_CHECKING:
    from hashlib import _Hash

_HEADER = len(CHECKPOINT_MAGIC) + 64 + 1
SAVE_INTERVAL = 5.0
"""Seconds between two saves, at least."""
MAX_SAVE_SHARE = 0.02
"""The share of the calibration's time that saving may take."""


def explain_other_file(path: Path, content: bytes, *, of_workers: bool) -> StatsError:
    """The error of a file that is not the checkpoint that is asked for: of workers, or of one process."""
    if content.startswith(CHECKPOINT_MAGIC if of_workers else SHARD_CHECKPOINT_MAGIC):
        advice = (
            "one process; continue without workers"
            if of_workers
            else "workers; continue with workers"
        )
        return StatsError(f"{redact(path)}: is a checkpoint of {advice}, or name another file")
    wanted = "workers" if of_workers else "ptq"
    return StatsError(f"{redact(path)}: is not a checkpoint of {wanted}; name another file")


class Checkpoint:
    """The file of one calibration."""

    def __init__(self, path: Path, graph: str, *, every: float = SAVE_INTERVAL) -> None:
        """Name the file; `restore` reads it.

        Args:
            path: The file.
            graph: Digest of the graph that is calibrated.
            every: Seconds between two saves, at least.
        """
        self._path = path
        self._graph = graph
        self._every = every
        # 0: the first group is saved at once, so that an unwritable file fails early
        self._due = 0.0
        self._digest = hashlib.sha256(graph.encode())

    def restore(self, samples: Iterator[Sample]) -> Calibration | None:
        """The statistics so far, or None without a file; takes the samples that they count off the iterator.

        Raises:
            StatsError: The file is damaged, or belongs to another model or to other samples.
            DataError: A sample cannot be read.
        """
        try:
            content = files.read(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StatsError(
                f"{redact(self._path)}: cannot be read ({error.strerror}); name another checkpoint"
            ) from None
        if not content.startswith(CHECKPOINT_MAGIC):
            raise explain_other_file(self._path, content, of_workers=False)
        state = from_bytes(content[_HEADER:], redact(self._path))
        if state.graph != self._graph:
            raise build_mismatch_error(self._path, "another model")
        for _ in range(state.samples):
            sample = next(samples, None)
            if sample is None:
                raise build_mismatch_error(self._path, "other samples or other preprocessing")
            self._hash_sample(sample)
        if content[len(CHECKPOINT_MAGIC) : _HEADER] != f"{self._digest.hexdigest()}\n".encode():
            raise build_mismatch_error(self._path, "other samples or other preprocessing")
        return state

    def record_samples(self, group: Sequence[Sample], state: Callable[[], Calibration]) -> None:
        """Record that samples were counted; save if the interval has passed.

        Raises:
            PtqError: The file cannot be written.
        """
        for sample in group:
            self._hash_sample(sample)
        if time.monotonic() >= self._due:
            self.save(state())

    def save(self, state: Calibration) -> None:
        """Write the file; the statistics count exactly the samples recorded so far.

        Raises:
            PtqError: It cannot be written.
        """
        started = time.monotonic()
        header = CHECKPOINT_MAGIC + f"{self._digest.hexdigest()}\n".encode()
        files.write(self._path, header + state.to_bytes())
        ended = time.monotonic()
        self._due = ended + max(self._every, (ended - started) / MAX_SAVE_SHARE)

    def _hash_sample(self, sample: Sample) -> None:
        digest: _Hash = self._digest
        digest.update(f"{len(sample.feed)} {sample.name!r}".encode("utf-8", "backslashreplace"))
        for name, array in sorted(sample.feed.items()):
            digest.update(f"{name!r} {array.dtype.str} {array.shape}".encode())
            digest.update(array.tobytes())


def build_mismatch_error(path: Path, whose: str) -> StatsError:
    """The error of a checkpoint that belongs to another calibration."""
    return StatsError(
        f"{redact(path)}: this checkpoint belongs to {whose}; name another file, or delete it"
    )
