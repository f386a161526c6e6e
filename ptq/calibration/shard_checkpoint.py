"""The checkpoint of a calibration on workers: the merged statistics of the shards that are counted.

The statistics say by their identity which shards these are, and of which samples. The file is used only for the same
model, and for samples of the same names and contents.

Format: one line, ``ptq shard checkpoint 1 SHARDS``, then a file of statistics.
"""

from __future__ import annotations

import time
from pathlib import Path

from ptq.calibration.checkpoint import (
    MAX_SAVE_SHARE,
    SAVE_INTERVAL,
    build_mismatch_error,
    explain_other_file,
)
from ptq.calibration.identify import identify_samples
from ptq.core import files
from ptq.core.errors import StatsError
from ptq.core.remote import redact
from ptq.data import Samples
from ptq.observers.calibration_file import SHARD_CHECKPOINT_MAGIC, Calibration, from_bytes
from ptq.observers.keep_limit import NONE_KEPT, KeepLimit


class ShardCheckpoint:
    """The file of one calibration on workers."""

    def __init__(self, path: str, graph: str, samples: Samples) -> None:
        """Name the file.

        Args:
            path: The file, or its URL.
            graph: Digest of the graph that is calibrated.
            samples: All samples of the calibration.
        """
        self._path, self._graph = Path(path), graph
        [self._listing] = identify_samples(samples).listings
        self._shard_of = samples.shard_of
        self._due = 0.0

    def restore(
        self, shards: int, keep: KeepLimit = NONE_KEPT
    ) -> tuple[Calibration | None, int, list[int]]:
        """The statistics so far, the number of shards, and those that are not counted.

        Args:
            shards: The number of shards of a new calibration.
            keep: The most samples that the statistics keep.

        Raises:
            StatsError: The file is damaged, belongs to another model or to other samples, or keeps other samples.
        """
        try:
            content = files.read(self._path)
        except FileNotFoundError:
            return None, shards, list(range(shards))
        except OSError as error:
            raise StatsError(
                f"{redact(self._path)}: cannot be read ({error.strerror}); name another checkpoint"
            ) from None
        header, _, stored = content.partition(b"\n")
        number = header.removeprefix(SHARD_CHECKPOINT_MAGIC)
        if not header.startswith(SHARD_CHECKPOINT_MAGIC) or not number.isdigit() or not int(number):
            raise explain_other_file(self._path, content, of_workers=True)
        state, shards = from_bytes(stored, redact(self._path)), int(number)
        if state.graph != self._graph:
            raise build_mismatch_error(self._path, "another model")
        first, stride = self._shard_of
        listings = () if state.identity is None else state.identity.listings
        if len(listings) != 1 or not listings[0].may_be_same(self._listing):
            raise build_mismatch_error(self._path, "other samples")
        kept = NONE_KEPT if state.kept is None else state.kept.limit
        if kept != keep:
            raise StatsError(
                f"{redact(self._path)}: this checkpoint keeps up to {kept}, not {keep}; ask for "
                "the same, name another file, or delete it"
            )
        counts = listings[0].counts
        remaining = [k for k in range(shards) if not counts[(first + k * stride) % len(counts)]]
        return state, shards, remaining

    def require_contents(self, state: Calibration | None, digest: str | None) -> None:
        """Check that the counted samples still have their contents.

        Args:
            state: The statistics so far.
            digest: The digest of the samples of their shards as they are now; None without any.

        Raises:
            StatsError: They have others.
        """
        if digest is None or state is None or state.identity is None:
            return
        if state.identity.digest != digest:
            raise build_mismatch_error(self._path, "other samples, of the same names")

    def save(self, state: Calibration, shards: int, *, at_once: bool = False) -> None:
        """Write the file if the interval has passed, or at once.

        Raises:
            PtqError: It cannot be written.
        """
        started = time.monotonic()
        if started < self._due and not at_once:
            return
        files.write(self._path, SHARD_CHECKPOINT_MAGIC + b"%d\n" % shards + state.to_bytes())
        ended = time.monotonic()
        self._due = ended + max(SAVE_INTERVAL, (ended - started) / MAX_SAVE_SHARE)
