"""Error attribution: the share of each output's error that each rounding error source causes.

Group testing: neighbouring sources are injected together. Only groups that cause much error are split and measured
again. If k of n sources cause nearly all of the error, about k·log n runs find them, and each is measured alone. If
all sources cause a little, the groups stay, and each source gets an equal share of its group's error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data import Sample
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.rewrite.instrument.error_sources import ErrorProbe, ErrorSource

INITIAL_GROUPS = 16
SPLIT_AT_ONCE, SPLITS = 8, 4
"""At most 8 groups are split in one round, each into 4."""
MAX_RUNS = 96
"""Runs of each sample, for all groups."""
SAMPLES = 4
"""As many samples identify the largest sources (measured on a dozen networks)."""
_MIN_SHARE = 1 / 32
"""The share of the error of all sources together below which a group is not split."""
_INFINITE = 1e30
"""Stands for an infinite share, so that sums stay finite."""

Energies = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ErrorAttribution:
    """The error that each source causes.

    Attributes:
        sources: The error sources.
        error_shares: The error energy of each source as a share of the output's energy, shape (outputs, sources).
        joint_shares: The same for all sources together, shape (outputs,).
        measured_alone: Whether a source was measured alone; else it has an equal share of its group's error.
        samples: How many samples were run.
        runs: How often the float model ran on each sample, with or without errors.
    """

    sources: tuple[ErrorSource, ...]
    error_shares: Energies
    joint_shares: Energies
    measured_alone: NDArray[np.bool_]
    samples: int
    runs: int

    @property
    def mean_shares(self) -> Energies:
        """The share of each source, averaged over the outputs."""
        return (
            self.error_shares.mean(axis=0)
            if len(self.error_shares)
            else np.zeros(len(self.sources))
        )

    def remaining_share(self, floats: Set[str]) -> float:
        """The error of the sources that these float nodes leave, averaged over the outputs."""
        return float(self.mean_shares[list_remaining(self.sources, floats)].sum())


def list_remaining(sources: Sequence[ErrorSource], floats: Set[str]) -> list[int]:
    """The numbers of the sources that these float nodes leave."""
    return [k for k, source in enumerate(sources) if not source.float_nodes_needed <= floats]


def attribute_error(
    injector: ErrorInjector,
    samples: Sequence[Sample],
    enough: Energies | None = None,
    *,
    groups: int = INITIAL_GROUPS,
    least: float = _MIN_SHARE,
    advance: Callable[[], None] = lambda: None,
) -> ErrorAttribution:
    """Measure the share of the output error that each error source causes.

    Args:
        injector: The graphs and the error sources.
        samples: The samples to run; they are read several times.
        enough: For each output, the share of its energy above which a group is split; infinite to ignore the
            output. None stands for ``least`` of the error of all sources, together or summed over the groups.
        groups: How many groups are measured first.
        least: The share of the error of all sources below which a group is not split.
        advance: Called after each sample of each round.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    if not samples:
        raise DataError("no samples to measure errors on; give at least one")
    probe, before = injector.probe, injector.runs
    runs, count = _GroupRuns(injector, samples, advance), len(probe.sources)
    everything = np.arange(count)
    parts = np.array_split(_find_execution_order(probe), min(groups, count))
    measured, runs_left = runs.shares([everything, *parts]), MAX_RUNS - len(parts)
    joint, shares = measured[:, 0], list(measured[:, 1:].T)
    if enough is None:
        # errors of one sign add up to more than their sum of energies: then the sum is what is to be split
        whole = np.minimum(joint, measured[:, 1:].sum(axis=1))
        enough = np.where(whole > 0, least * whole, np.inf)
    while True:
        excess = [float((share / enough).max(initial=0.0)) for share in shares]
        able = [k for k, group in enumerate(parts) if len(group) > 1 and excess[k] > 1]
        most = min(SPLIT_AT_ONCE, runs_left // SPLITS)
        chosen = sorted(able, key=lambda k: -excess[k])[:most]
        if not chosen:
            break
        smaller = [
            half for k in chosen for half in np.array_split(parts[k], min(SPLITS, len(parts[k])))
        ]
        found = runs.shares(smaller).T
        runs_left -= len(smaller)
        kept = [k for k in range(len(parts)) if k not in chosen]
        parts = [*(parts[k] for k in kept), *smaller]
        shares = [*(shares[k] for k in kept), *found]
    each, alone = np.zeros((len(joint), count)), np.zeros(count, bool)
    for group, share in zip(parts, shares, strict=True):
        each[:, group] = share[:, None] / len(group)
        alone[group] = len(group) == 1
    of_each = -(-(injector.runs - before) // len(samples))
    return ErrorAttribution(probe.sources, each, joint, alone, len(samples), of_each)


def measure_joint_errors(
    injector: ErrorInjector,
    groups: Sequence[Sequence[int]],
    samples: Sequence[Sample],
) -> Energies:
    """Measure the error of each group of sources together, as a share of the output's energy: (outputs, groups).

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    runs = _GroupRuns(injector, samples, lambda: None)
    return runs.shares([np.asarray(group, np.intp) for group in groups])


def _find_execution_order(probe: ErrorProbe) -> NDArray[np.intp]:
    index = {node.name: number for number, node in enumerate(probe.injected.nodes)}
    return np.argsort([index.get(source.node, -1) for source in probe.sources], kind="stable")


class _GroupRuns:
    """Injects groups of sources on all samples."""

    def __init__(
        self, injector: ErrorInjector, samples: Sequence[Sample], advance: Callable[[], None]
    ) -> None:
        self._injector, self._samples, self._advance = injector, samples, advance

    def shares(self, groups: Sequence[NDArray[np.intp]]) -> Energies:
        """The error energy of each group as a share of the output's, over all samples, shape (outputs, groups)."""
        factors = np.zeros((len(groups), len(self._injector.probe.sources)), np.float32)
        for row, group in zip(factors, groups, strict=True):
            row[group] = 1
        found = []
        for pair in self._injector.output_error_energies(self._samples, factors):
            found.append(pair)
            self._advance()
        noise: Energies = np.sum([energies for energies, _ in found], axis=0)
        signal: Energies = np.sum([own for _, own in found], axis=0)
        shares: Energies = noise / np.where(signal > 0, signal, 1.0)[:, None]
        return np.nan_to_num(shares, nan=_INFINITE, posinf=_INFINITE)
