"""Verb ``ptq.calibrate``: a model and samples → statistics."""

from __future__ import annotations

import os
from typing import get_args

from ptq.calibration.calibration import collect_statistics
from ptq.calibration.collect_shards import collect_in_shards
from ptq.core.errors import UsageError
from ptq.core.memory import return_large_blocks_at_once
from ptq.core.option_checks import (
    refuse_unknown_options,
    require_choice,
    require_count,
    require_path,
)
from ptq.core.run_options import (
    DEFAULT_RUN,
    MemoryOption,
    Progress,
    RunOptions,
    parse_memory,
)
from ptq.data import DataSource, Preparation
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.start_workers import resolve_data, start_workers, stop_workers_at_end
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.open import Model
from ptq.observers.calibration_file import Calibration
from ptq.observers.keep_limit import KeepOption, parse_keep_limit
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare


@refuse_unknown_options
@stop_workers_at_end
@use_given_threads
def calibrate(
    model: Model,
    data: DataSource,
    *,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    shard: tuple[int, int] | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    batch: int = DEFAULT_RUN.calibration_batch,
    threads: int = 0,
    workers: int = 1,
    cluster: Cluster | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    memory: MemoryOption | None = None,
    keep_samples: KeepOption = 0,
    opset: OpsetOption = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """Observe the tensors of a model on all samples of the data.

    Args:
        model: A float model.
        data: Samples (see ``ptq.data.open_samples``).
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread.
        shard: (k, n): use every n-th sample, starting at the k-th; the statistics of all shards merge to the whole.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        batch: Samples that are counted together; the statistics do not depend on it.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core, and with workers one in all.
        workers: Number of processes, with this one. Each takes shards of the samples and reads them itself, so
            model and data must be paths.
        cluster: Workers elsewhere: ``tcp://host:port`` of a Dask scheduler, ``ray://host:port``, or any
            `concurrent.futures.Executor`. They read the data themselves, and get the model from here.
        checkpoint: A file that the statistics are saved to every few seconds. If it exists, calibration continues
            from it: the samples that it counts are read and compared, not run.
        memory: Most memory of the process, in bytes or as ``500MB``. If the tensors do not fit, they are observed in
            rounds, one pass over the samples each; the statistics stay the same, bit for bit. Samples from Python
            that are kept in memory count too; see ``cache``.
        keep_samples: The most samples that the statistics keep, as arrays: a number, or a size of all their arrays
            such as ``100MB``. ``quantize`` then decides from the statistics alone what it decides from data:
            equalization, range methods, weight rounding.
        opset: ``keep`` or ``auto``, as for ``quantize``; both need the same.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: The model cannot be read or run.
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to another model or to other samples.
        UsageError: Options contradict each other, or ``memory`` is below what the model needs.
        Cancelled: The progress callback returned False or raised an exception.
    """
    require_choice("opset", opset, get_args(OpsetOption))
    reading = SampleOptions(preprocess, samples, skip_bad_samples, shard, cache)
    limit = None if memory is None else parse_memory(memory)
    if limit is not None:  # before the model is read, whose copies are large
        return_large_blocks_at_once()
    run = RunOptions(threads=threads, calibration_batch=batch, progress=progress, memory=limit)
    if checkpoint is not None:
        require_path("checkpoint", checkpoint)
    keep = parse_keep_limit(keep_samples)
    state = None if checkpoint is None else os.fspath(checkpoint)
    alone = cluster is None and require_count("workers", workers, least=1) == 1
    if not alone:
        data = _require_places(model, data, workers, cluster, limit)
        run = start_workers(run, workers, cluster, same_maker=False)
    graph = open_and_prepare(model, opset=opset)[1].graph
    opened = reading.open(data, graph)
    if not alone:
        return collect_in_shards(graph, str(data), opened, checkpoint=state, keep=keep, run=run)
    return collect_statistics(graph, opened, checkpoint=checkpoint, keep=keep, run=run)


def _require_places(
    model: Model, data: DataSource, workers: int, cluster: Cluster | None, limit: int | None
) -> str:
    """The data as what workers can open.

    Raises:
        UsageError: They cannot.
    """
    paths = (str, os.PathLike)
    if cluster is not None:
        if workers != 1 or limit is not None or not isinstance(data, paths):
            raise UsageError(
                "a cluster has its own workers and memory, and needs a path or URL of the data that they see",
                "cluster",
            )
        return os.fspath(resolve_data(data, cluster))
    if not (isinstance(model, paths) and isinstance(data, paths)):
        raise UsageError("several workers need paths for model and data; use one worker")
    if limit is not None:
        raise UsageError("memory limits one process; use one worker", "memory")
    return os.fspath(data)
