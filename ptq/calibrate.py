"""Runs the float model on calibration samples and counts what every tensor holds.

The model runs one sample at a time: ONNX Runtime's floats may depend on a sample's neighbours in a batch, the
counts must not. While it runs a sample, the tensors of the one before are being counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data import Sample
from ptq.errors import DataError
from ptq.graph import Graph, name_of
from ptq.observers.stats import TensorStats
from ptq.observers.store import Calibration
from ptq.session import Session

COUNTERS = 2  # counting one tensor is a single thread's work; two keep up with the model


def observe(
    graph: Graph, samples: Iterable[Sample], tensors: Sequence[str], *, threads: int = 0
) -> Calibration:
    """Count the values of tensors over all samples.

    Args:
        graph: A prepared graph.
        samples: What to run it on.
        tensors: Names of float tensors of the graph, its inputs included.
        threads: Threads for one operator; 0 is one a core.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    exposed = graph.copy()
    exposed.expose(tensors)
    fed = {name_of(v) for v in graph.inputs}
    computed = [name for name in tensors if name not in fed]
    session = Session(exposed, threads=threads)
    stats = {name: TensorStats() for name in tensors}
    count = 0
    with ThreadPoolExecutor(COUNTERS) as pool:
        counting: list[Future[None]] = []
        for sample in samples:
            try:
                results = session.run(sample.feed, computed) if computed else []
            except DataError as error:
                raise DataError(f"{sample.name}: {error}") from error
            arrays = dict(zip(computed, results, strict=True))
            arrays.update((name, sample.feed[name]) for name in tensors if name in fed)
            _wait(counting)
            counting = _count(pool, stats, arrays)
            count += 1
        _wait(counting)
    if not count:
        raise DataError("there is no calibration sample; give at least one")
    return Calibration(graph.digest(), count, stats)


def _count(
    pool: ThreadPoolExecutor, stats: Mapping[str, TensorStats], arrays: Mapping[str, NDArray[Any]]
) -> list[Future[None]]:
    largest_first = sorted(arrays, key=lambda name: (-arrays[name].size, name))
    return [pool.submit(stats[name].update, np.asarray(arrays[name])) for name in largest_first]


def _wait(counting: Iterable[Future[None]]) -> None:
    for future in counting:
        future.result()
