"""Outputs of the float model on evaluation samples, which idle workers compute ahead of the evaluation.

Rounding weights makes many short calls of numpy, which threads of one process hardly share. The workers wait
meanwhile: they use the threads that they bring, which are taken back when all outputs are known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial

from ptq.core.run_options import RunOptions
from ptq.data import Samples
from ptq.data.workers.idle_workers import IdleWorkers
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part, can_find_samples
from ptq.data.workers.worker_pool import ProcessPool
from ptq.evaluation.batching.batch_size import choose_batch
from ptq.evaluation.runs.engines import Engine
from ptq.evaluation.runs.reference import DigestedOutputs
from ptq.evaluation.runs.run_forms import Opener, choose_part_size, run_groups, split_into_batches
from ptq.evaluation.runs.session_cache import SessionCache, open_engine
from ptq.kernels.lent_threads import lend_threads
from ptq.solver.quantizer import CalibratedModel

_MAX_BYTES = 2**25
"""Bytes of outputs that are kept."""


def run_float_ahead(
    sessions: SessionCache, model: CalibratedModel, samples: Samples | None
) -> AbstractContextManager[None]:
    """Let idle workers run the float model on evaluation samples while a block runs, for the cache of sessions.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    if samples is None or sessions.run.pool is None:
        return nullcontext()
    opener = partial(open_engine, sessions.float_opener(model))
    batch = choose_batch(sessions.run, model.source)
    return compute_ahead(opener, samples, batch, sessions.run, sessions.known)


@contextmanager
def compute_ahead(
    opener: Opener,
    samples: Samples,
    batch: int,
    run: RunOptions,
    known: dict[str, DigestedOutputs],
) -> Iterator[None]:
    """Compute while the block runs, if workers of this run have started, and files of this machine hold the samples.

    What fails is left to the evaluation, which names it.

    Args:
        opener: Opens the float model in another process.
        samples: The evaluation samples.
        batch: Samples that run at once, as in the evaluation.
        run: How the job runs.
        known: Gets the digest and the outputs of samples, by name; those that it has are not run again.
    """
    pool, origin = run.pool, samples.origin
    is_idle = isinstance(pool, ProcessPool) and bool(pool.started)
    if not (is_idle and can_find_samples(samples) and origin is not None and origin.is_local):
        yield
        return
    assert isinstance(pool, ProcessPool)
    idle = IdleWorkers(pool)
    with lend_threads(idle.count * (run.threads or 1)) as lent:

        def compute() -> None:
            with suppress(Exception):
                own = samples.as_unread()
                size = choose_part_size(batch, next(own.read_good()))
                rest = own.subset(range(find_next_part(own.names, known, size), len(own)))
                left = _MAX_BYTES - _count_bytes(known.values())
                parts = SampleMap(_AheadJob(opener, batch), replace(run, progress=None, pool=idle))
                for found in parts.map(rest, least=size, most=size):
                    known.update(found)
                    left -= _count_bytes(one for _, one in found)
                    if left < 0:
                        break
            lent.take_back()

        thread = threading.Thread(target=compute, name="ptq-ahead", daemon=True)
        thread.start()
        try:
            yield
        finally:
            idle.stop()
            thread.join()


def find_next_part(names: Sequence[str], known: Container[str], size: int) -> int:
    """The place of the first part behind those that are known, so that the same samples share a part as at first."""
    places = [place for place, name in enumerate(names) if name in known]
    return -(-(places[-1] + 1) // size) * size if places else 0


def _count_bytes(found: Iterable[DigestedOutputs]) -> int:
    return sum(array.nbytes for _, outputs in found for array in outputs)


@dataclass(frozen=True, eq=False)
class _AheadJob:
    opener: Opener
    batch: int

    def open(self) -> Callable[[Part], list[tuple[str, DigestedOutputs]]]:
        return partial(_run_part, self.opener(), self.batch)


def _run_part(engine: Engine, batch: int, part: Part) -> list[tuple[str, DigestedOutputs]]:
    found = run_groups({"": engine}, split_into_batches(part.samples, batch))
    return [(sample.name, (sample.digest, outputs[""])) for sample, outputs in found]
