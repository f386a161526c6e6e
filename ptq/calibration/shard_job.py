"""Calibration of one shard of the samples, as a job for workers."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from typing import Any

from ptq.calibration.calibration import collect_statistics
from ptq.core.errors import PtqError, StatsError
from ptq.core.run_options import RunOptions
from ptq.data import Samples
from ptq.data.sample_digest import merge_digests
from ptq.data.shard_map import Shard
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.observers.calibration_file import Calibration, from_bytes
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare


@dataclass(frozen=True)
class CalibrationJob:
    """Observe a model on shards of samples.

    Attributes:
        model: Path or URL of the model; empty if its content is shared.
        digest: SHA-256 of the content that is shared; empty without.
        data: Path or URL of the samples, or ``module:callable``.
        reading: How the samples are read, without a shard of their own.
        opset: Whether the opset of the model is kept.
        keep_samples: The most samples that the statistics keep.
        run_options: How the job runs on a worker.
    """

    model: str
    digest: str
    data: str
    reading: SampleOptions
    opset: OpsetOption
    keep_samples: int
    run_options: RunOptions

    def run(self, shard: Shard, content: bytes | None) -> Any:
        """The statistics of a shard as a file, with the skipped samples; or the error."""
        try:
            graph, samples = _open_once(self, content)
            found = collect_statistics(
                graph,
                samples.shard(*shard),
                keep_samples=self.keep_samples,
                run=self.run_options,
            )
            return found.to_bytes(), found.skipped
        except PtqError as error:
            return error if content is None else type(error)(f"on a worker: {error}")
        except Exception as error:  # an internal error: the parent reports it
            return RuntimeError(f"in a worker: {type(error).__name__}: {error}")

    def decode(self, message: Any) -> Calibration:
        """The statistics in a message; raise the error of the worker."""
        if isinstance(message, Exception):
            raise message
        content, skipped = message
        return replace(from_bytes(content, "a worker"), skipped=skipped)

    def merge(self, first: Calibration, second: Calibration) -> Calibration:
        """The statistics of both.

        Raises:
            StatsError: The workers have different versions or kinds of processor, whose last bits may differ.
        """
        merged = first.merge(second)
        if merged.identity is not None and len(merged.identity.made_by) > 1:
            made = merged.identity.made_by
            differ = [key for key in made[0] if len({str(each.get(key)) for each in made}) > 1]
            raise StatsError(
                f"the workers have different versions of {', '.join(differ)}; install the same on each"
            )
        return merged


@dataclass(frozen=True)
class DigestJob:
    """Digest the samples of shards that an earlier run counted; nothing runs.

    Attributes:
        job: The calibration.
    """

    job: CalibrationJob

    def run(self, shard: Shard, content: bytes | None) -> Any:
        """The digest of the good samples of a shard; or the error."""
        try:
            samples = _open_once(self.job, content)[1].shard(*shard)
            for _ in samples.read_good():
                pass
            return samples.digest
        except PtqError as error:
            return error

    def decode(self, message: Any) -> str:
        """The digest in a message; raise the error of the worker."""
        if isinstance(message, Exception):
            raise message
        return str(message)

    def merge(self, first: str, second: str) -> str:
        """The digest of both."""
        return merge_digests(first, second)


_latest: dict[str, tuple[Graph, Samples]] = {}
"""The prepared graph and the samples of the latest job of this process; a worker that is warm opens them once."""
_lock = threading.Lock()


def keep_opened(job: CalibrationJob, graph: Graph, samples: Samples) -> None:
    """Keep what is open already, for shards that this process runs itself."""
    with _lock:
        _latest.clear()
        _latest[repr(job)] = graph, samples


def forget_job() -> None:
    """Free what this process keeps of the latest job."""
    with _lock:
        _latest.clear()


def _open_once(job: CalibrationJob, content: bytes | None) -> tuple[Graph, Samples]:
    key = repr(job)
    with _lock:
        if key not in _latest:
            _latest.clear()
            if content is not None and hashlib.sha256(content).hexdigest() != job.digest:
                raise StatsError("the model that arrived on a worker is another one; run again")
            graph = open_and_prepare(job.model or content or b"", opset=job.opset)[1].graph
            _latest[key] = graph, job.reading.open(job.data, graph)
        return _latest[key]
