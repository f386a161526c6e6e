"""Calibration within a limit of memory: the tensors are observed in rounds if they do not fit at once.

Two runs of the model without its inner tensors, on the largest sample, measure what the model itself needs. They
return the sizes of the tensors too. Each round then observes as many tensors as fit, on all samples. Its session
computes the tensors of the other rounds in the same way, so that the statistics are the same, bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ptq.core.errors import UsageError
from ptq.core.memory import (
    PeakMemory,
    can_measure_memory,
    measure_memory,
    read_peak_memory,
    release_memory,
)
from ptq.core.run_options import RunOptions, SizedIterable
from ptq.core.stages import CALIBRATING
from ptq.data import Sample, Samples
from ptq.model.graph import Graph
from ptq.model.node import get_dtype, get_name
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_shapes
from ptq.observers.calibration_file import Calibration
from ptq.observers.keep_limit import NONE_KEPT, KeepLimit

_LOG = logging.getLogger("ptq")

_RESERVE = 4 * 2**20
"""Memory for counting, and for what the measurement may have missed."""
_LOADING_RESERVE = 2**19
"""Memory by which loading may vary; the measured session has more nodes than that of any round."""
_STATISTICS_BYTES = 64 * 2**10
"""Memory of new statistics of one tensor: cells of 60 binades, which few tensors occupy."""
_COPIES = 2
"""Copies of the largest tensor that counting may make, one in each of its threads: without NaN, or sums of rows."""

ObserveRound = Callable[
    [SizedIterable[Sample], CollectedTensors, Collection[str], RunOptions], list[Calibration]
]
"""Observes samples: these tensors, while others are held (see `open_session_with_outputs`), with these options."""


def observe_in_rounds(
    graph: Graph,
    samples: Samples,
    wanted: CollectedTensors,
    run: RunOptions,
    observe: ObserveRound,
    *,
    splits: int = 1,
    keep: KeepLimit = NONE_KEPT,
    only_one: str = "",
) -> list[Calibration]:
    """Observe all tensors, in as many rounds as ``run.memory`` asks for; in one round without a limit.

    Args:
        graph: A prepared graph.
        samples: The samples; with a limit, they are read once more to find the largest.
        wanted: The tensors to observe.
        run: How the job runs.
        observe: What a round does.
        splits: Number of statistics of each tensor.
        keep: The most samples that ``observe`` keeps in memory.
        only_one: What a second round would not permit; empty if nothing.

    Returns:
        What each round returns, joined.

    Raises:
        UsageError: The limit is below what the model needs, which the text says; or this system measures no memory.
        DataError: A sample is missing, unreadable or does not fit.
    """
    if run.memory is None:
        return observe(run.track(samples, CALIBRATING), wanted, (), run)
    need = _measure_need(graph, wanted, samples, run)
    remaining, parts = wanted.names, list[list[Calibration]]()
    while remaining or not parts:
        # later rounds find the kept samples in memory
        reserved = 0 if parts else keep.most_bytes(len(samples), need.sample)
        limit = run.memory - reserved
        names, batch = need.fit(remaining, limit, run.calibration_batch, splits, reserved)
        remaining = remaining[len(names) :]
        if only_one and remaining:
            raise UsageError(
                f"memory {_format_megabytes(run.memory)}: the tensors do not fit at once, and {only_one} "
                "cannot be kept over several rounds; give more memory",
                "memory",
            )
        stage = f"{CALIBRATING}, round {len(parts) + 1}" if remaining or parts else CALIBRATING
        _LOG.info("%s: %d tensors, batch %d", stage, len(names), batch)
        part = _select(wanted, names)
        held = [name for name in wanted.names if name not in part.names]
        limited = replace(run, calibration_batch=batch)
        parts.append(observe(run.track(samples, stage), part, held, limited))
        release_memory(above=0)
    return [_join(rounds, wanted) for rounds in zip(*parts, strict=True)]


@dataclass(frozen=True)
class _Need:
    """What a model needs in memory.

    Attributes:
        loading: Bytes that loading takes at its peak.
        running: Bytes that the loaded model and a run of the largest sample take.
        sample: Bytes of the largest sample.
        sizes: Bytes of each computed tensor of the largest sample.
    """

    loading: int
    running: int
    sample: int
    sizes: Mapping[str, int]

    def fit(
        self, names: Sequence[str], limit: int, batch: int, splits: int, reserved: int = 0
    ) -> tuple[Sequence[str], int]:
        """The first names of those that fit the limit, and how many samples are counted together.

        Raises:
            UsageError: Not even one tensor fits.
        """
        resting = measure_memory()
        largest = max(self.sizes.values(), default=0)
        running = resting + self.running + self.sample + _COPIES * largest + _RESERVE
        statistics = splits * _STATISTICS_BYTES
        least = max(
            running + largest + statistics,
            resting + self.loading + _LOADING_RESERVE,
            read_peak_memory(),
        )
        if least > limit:
            raise UsageError(
                f"memory {_format_megabytes(limit + reserved)}: this model needs at least "
                f"{_format_megabytes(least + reserved)} to be calibrated; give that much",
                "memory",
            )
        used = 0
        for count, name in enumerate(names):
            size = self.sizes.get(name, 0) + statistics
            if running + used + size > limit:
                return names[:count], 1
            used += size
        # a batch needs its samples, its stacks, and the single results from which their shapes come
        more = (limit - running - used) // (sum(self.sizes.values()) + self.sample + 1)
        return names, max(1, min(batch, more))


def _measure_need(
    graph: Graph, wanted: CollectedTensors, samples: Samples, run: RunOptions
) -> _Need:
    """Measure the memory of the model on the largest sample."""
    if not can_measure_memory():
        raise UsageError("memory can be limited on Linux with glibc only; leave it out", "memory")
    largest = max(samples, key=lambda sample: sample.nbytes, default=None)
    if largest is None:
        return _Need(0, 0, 0, {})
    release_memory(above=0)
    with PeakMemory() as loading:
        session, shapes = open_session_with_shapes(graph, wanted.names, threads=run.threads)
    release_memory(above=0)
    with PeakMemory() as running:
        for _ in range(2):
            found = session.run(largest.feed, list(shapes.values()))
    del session
    bits = {get_name(v): get_dtype(v) for node in graph.nodes for v in node.outputs if v.name}
    widths = [8 if (kind := bits[name]) is None else kind.itemsize for name in shapes]
    sizes = {
        name: prod(map(int, shape)) * width
        for name, shape, width in zip(shapes, found, widths, strict=True)
    }
    release_memory(above=0)
    # with what the first session leaves behind, which later ones use again
    resting = measure_memory()
    taken = loading.bytes - resting, running.bytes - resting
    return _Need(*taken, largest.nbytes, sizes)


def _select(wanted: CollectedTensors, names: Sequence[str]) -> CollectedTensors:
    chosen = set(names)
    axes = {name: axis for name, axis in wanted.channel_axes.items() if name in chosen}
    tensors = [name for name in wanted.tensors if name in chosen]
    return replace(wanted, tensors=tensors, channel_axes=axes)


def _join(parts: Sequence[Calibration], wanted: CollectedTensors) -> Calibration:
    """The statistics of all rounds, in the order of the tensors."""
    tensors = {name: stats for part in parts for name, stats in part.tensors.items()}
    channels = {name: sums for part in parts for name, sums in part.channels.items()}
    return replace(
        parts[0],
        tensors={name: tensors[name] for name in wanted.tensors},
        channels={name: channels[name] for name in wanted.channel_axes},
    )


def _format_megabytes(size: int) -> str:
    return f"{-(-size // 10**6)}MB"
