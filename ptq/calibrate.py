"""Runs the float model on calibration samples and counts what every tensor holds.

The model runs one sample at a time: ONNX Runtime's floats may depend on a sample's neighbours in a batch, the
counts must not. While it runs a sample, the tensors of the one before are being counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ptq.data import Sample
from ptq.errors import DataError
from ptq.graph import Graph
from ptq.observers.moments import ChannelSums
from ptq.observers.stats import TensorStats
from ptq.observers.store import Calibration
from ptq.session import Session

COUNTERS = 2  # counting one tensor is a single thread's work; two keep up with the model


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
    graph: Graph, samples: Iterable[Sample], wanted: Wanted, *, threads: int = 0
) -> Calibration:
    """Observe tensors over all samples.

    Args:
        graph: A prepared graph.
        samples: What to run it on.
        wanted: What to observe.
        threads: Threads for one operator; 0 is one a core.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    counted = count_values(exposing(graph, wanted, threads=threads), samples, wanted)
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

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Take in one sample's tensor; different tensors may come from different threads."""
        if name in self.tensors:
            self.tensors[name].update(array)
        if name in self.channels:
            self.channels[name].update(array)


def count_values(session: Session, samples: Iterable[Sample], wanted: Wanted) -> Counted:
    """Run the model over the samples and count.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    fed = set(session.inputs)
    computed = [name for name in wanted.names if name not in fed]
    counted = Counted(
        {name: TensorStats() for name in wanted.tensors},
        {name: ChannelSums(axis) for name, axis in wanted.channels.items()},
    )
    with ThreadPoolExecutor(COUNTERS) as pool:
        for sample in samples:
            try:
                results = session.run(sample.feed, computed) if computed else []
            except DataError as error:
                raise DataError(f"{sample.name}: {error}") from error
            arrays = dict(zip(computed, results, strict=True))
            arrays.update((name, sample.feed[name]) for name in wanted.names if name in fed)
            largest_first = sorted(arrays, key=lambda name: (-arrays[name].size, name))
            # popped, so that each tensor is freed as soon as it is counted
            work = [pool.submit(counted.add, name, arrays.pop(name)) for name in largest_first]
            for future in work:
                future.result()
            counted.samples += 1
    if not counted.samples:
        raise DataError("there is no calibration sample; give at least one")
    return counted
