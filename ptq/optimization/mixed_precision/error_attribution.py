"""Which few of many sources of error make most of each output's?

Sources that lie together are switched on together, and only what then makes much is parted and weighed anew. Where
few sources make nearly all, as many runs as their count times the logarithm of the number of sources find them, and
each is weighed alone; where all make a little, so do groups of them, and each source is given an equal part of its
group's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.optimization.mixed_precision.error_injection import ErrorInjector
from ptq.rewrite.instrument.error_sources import ErrorProbe, ErrorSource

INITIAL_GROUPS = 16  # at first
PARTED, PARTS = 8, 4  # groups at once, each into so many
MAX_RUNS = 96  # of each sample, for all groups
SAMPLES = 4  # as many as tell which sources they are, as measured on a dozen networks
_MIN_SHARE = 1 / 32
"""Of what all sources make together: groups that make less are not parted."""
_INFINITE = 1e30  # a share, whose sums are finite

Energies = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ErrorAttribution:
    """What every source makes.

    Attributes:
        sources: All of them.
        shares: By output and source, the energy of the error that it makes over the output's own.
        together: By output, what all of them make at once.
        alone: By source, whether it was run alone; of others an equal part is given of what their group makes.
        samples: How many were run.
        runs: How often the float model was run on each.
    """

    sources: tuple[ErrorSource, ...]
    error_shares: Energies
    joint_shares: Energies
    measured_alone: NDArray[np.bool_]
    samples: int
    runs: int

    @property
    def mean_shares(self) -> Energies:
        """By source, the mean share of all outputs."""
        return (
            self.error_shares.mean(axis=0)
            if len(self.error_shares)
            else np.zeros(len(self.sources))
        )


def attribute_error(
    probe: ErrorProbe,
    samples: Sequence[Sample],
    enough: Energies | None = None,
    *,
    run: RunOptions = DEFAULT_RUN,
    advance: Callable[[], None] = lambda: None,
) -> ErrorAttribution:
    """Weigh all sources of error.

    Args:
        probe: The model taken apart.
        samples: Some to run; they are read several times.
        enough: By output, the share of its energy that is worth knowing of; infinite where it does not count. Where
            none is given, a thirty-second of what all sources make together is.
        run: How the job runs.
        advance: Called after each sample of each round.

    Raises:
        ModelError: ONNX Runtime does not take the model taken apart.
        DataError: There is no sample, or it fails on one; the text names it.
    """
    if not samples:
        raise DataError("there is no sample to weigh errors on; give at least one")
    runs, count = _GroupRuns(ErrorInjector(probe, run), samples, advance), len(probe.sources)
    everything = np.arange(count)
    groups = np.array_split(_execution_order(probe), min(INITIAL_GROUPS, count))
    shares, runs_left = runs.shares([everything, *groups]), MAX_RUNS - len(groups)
    together, weights = shares[:, 0], list(shares[:, 1:].T)
    if enough is None:
        enough = np.where(together > 0, _MIN_SHARE * together, np.inf)
    while True:
        much = [float((weight / enough).max(initial=0.0)) for weight in weights]
        able = [k for k, group in enumerate(groups) if len(group) > 1 and much[k] > 1]
        chosen = sorted(able, key=lambda k: -much[k])[: min(PARTED, runs_left // PARTS)]
        if not chosen:
            break
        smaller = [
            part for k in chosen for part in np.array_split(groups[k], min(PARTS, len(groups[k])))
        ]
        found = runs.shares(smaller).T
        runs_left -= len(smaller)
        kept = [k for k in range(len(groups)) if k not in chosen]
        groups = [*(groups[k] for k in kept), *smaller]
        weights = [*(weights[k] for k in kept), *found]
    each, alone = np.zeros((len(together), count)), np.zeros(count, bool)
    for group, weight in zip(groups, weights, strict=True):
        each[:, group] = weight[:, None] / len(group)
        alone[group] = len(group) == 1
    return ErrorAttribution(probe.sources, each, together, alone, len(samples), runs.count)


def _execution_order(probe: ErrorProbe) -> NDArray[np.intp]:
    """The sources in the order in which a sample meets them."""
    place = {node.name: index for index, node in enumerate(probe.injected.nodes)}
    return np.argsort([place.get(source.node, -1) for source in probe.sources], kind="stable")


class _GroupRuns:
    """Runs groups of sources on all samples, and counts how often each was run."""

    def __init__(
        self, switched: ErrorInjector, samples: Sequence[Sample], advance: Callable[[], None]
    ) -> None:
        self.count = 0
        self._switched, self._samples, self._advance = switched, samples, advance

    def shares(self, groups: Sequence[NDArray[np.intp]]) -> Energies:
        """By output and group, the energy of the error over the output's own, over all samples."""
        factors = np.zeros((len(groups), len(self._switched.probe.sources)), np.float32)
        for row, group in zip(factors, groups, strict=True):
            row[group] = 1
        found = []
        for sample in self._samples:
            found.append(self._switched.output_error_energy(sample, factors))
            self._advance()
        self.count += len(groups) + 2  # without errors, and for what they are
        noise: Energies = np.sum([energies for energies, _ in found], axis=0)
        signal: Energies = np.sum([own for _, own in found], axis=0)
        shares: Energies = noise / np.where(signal > 0, signal, 1.0)[:, None]
        return np.nan_to_num(shares, nan=_INFINITE, posinf=_INFINITE)
