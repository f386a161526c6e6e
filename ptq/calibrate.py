"""Runs the float model on calibration samples and counts what every tensor holds.

The model runs one sample at a time: ONNX Runtime's floats may depend on a sample's neighbours in a batch, the
counts must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data import Sample
from ptq.errors import DataError
from ptq.graph import Graph
from ptq.observers.moments import ChannelSums
from ptq.observers.stats import TensorStats
from ptq.observers.store import Calibration
from ptq.session import Session

COUNTERS = 2  # counting one tensor is a single thread's work; two keep up with the model
BATCH = 4  # a count costs Python as much for four samples as for one, and memory for four


@dataclass(frozen=True)
class Wanted:
    """What to observe of a graph.

    Attributes:
        tensors: Float tensors whose values are counted, inputs of the graph included.
        channels: Float tensors that are summed by channel, with their channel axis.
    """

    tensors: Sequence[str]
    channels: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.tensors, *self.channels]))


def observe(
    graph: Graph,
    samples: Iterable[Sample],
    wanted: Wanted,
    *,
    batch: int = BATCH,
    threads: int = 0,
) -> Calibration:
    """Observe tensors over all samples.

    Args:
        graph: A prepared graph.
        samples: What to run it on.
        wanted: What to observe.
        batch: How many samples are held in memory and counted together; the statistics do not depend on it.
        threads: Threads for one operator; 0 is one a core.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    counted = count_values(exposing(graph, wanted, threads=threads), samples, wanted, batch)
    return Calibration(graph.digest(), counted.samples, counted.tensors, counted.channels)


def exposing(graph: Graph, wanted: Wanted, *, threads: int = 0) -> Session:
    """The float model, loaded, with the tensors among its outputs."""
    exposed = graph.copy()
    exposed.expose(wanted.names)
    return Session(exposed, threads=threads, arena=False)


@dataclass
class Counted:
    """Statistics while they are being gathered."""

    tensors: dict[str, TensorStats]
    channels: dict[str, ChannelSums]
    samples: int = 0

    def add(self, name: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Take in one tensor of several samples; different tensors may come from different threads."""
        if name in self.tensors:
            self.tensors[name].update(np.concatenate([array.reshape(-1) for array in arrays]))
        if name in self.channels:
            for array in arrays:
                self.channels[name].update(array)


def count_values(
    session: Session, samples: Iterable[Sample], wanted: Wanted, batch: int = BATCH
) -> Counted:
    """Run the model over the samples, one at a time, and count.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    counted = Counted(
        {name: TensorStats() for name in wanted.tensors},
        {name: ChannelSums(axis) for name, axis in wanted.channels.items()},
    )
    remaining = iter(samples)
    with ThreadPoolExecutor(COUNTERS) as pool:
        while group := list(islice(remaining, max(1, batch))):
            held = _run(session, group, wanted.names)
            largest_first = sorted(held, key=lambda name: (-held[name][0].size, name))
            # popped, so that each tensor is freed as soon as it is counted
            work = [pool.submit(counted.add, name, held.pop(name)) for name in largest_first]
            for future in work:
                future.result()
            counted.samples += len(group)
    if not counted.samples:
        raise DataError("there is no calibration sample; give at least one")
    return counted


def _run(
    session: Session, group: Sequence[Sample], names: Sequence[str]
) -> dict[str, list[NDArray[Any]]]:
    """The tensors of each sample, by name."""
    fed = set(session.inputs)
    computed = [name for name in names if name not in fed]
    held: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for sample in group:
        try:
            results = session.run(sample.feed, computed) if computed else []
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        for name, array in zip(computed, results, strict=True):
            held[name].append(array)
        for name in fed.intersection(names):
            held[name].append(sample.feed[name])
    return held
