"""Which few of many sources of error make most of each output's?

Sources that lie together are switched on together, and only what then makes much is parted and weighed anew. Where
few sources make nearly all, as many runs as their count times the logarithm of the number of sources find them, and
each is weighed alone; where all make a little, so do groups of them, and each source is given an equal part of its
group's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ptq.data import Sample
from ptq.rewrite.probe import Probe
from ptq.switched import Switched

GROUPS = 16  # at first
PARTED, PARTS = 8, 4  # groups at once, each into so many
RUNS = 96  # of each sample, for all groups
_INFINITE = 1e30  # a share, whose sums are finite

Energies = NDArray[np.float64]


def weighed(
    probe: Probe, samples: Sequence[Sample], enough: Energies, *, threads: int = 0
) -> tuple[Energies, Energies]:
    """Weigh all sources of error.

    Args:
        probe: The model taken apart.
        samples: Some to run; they are read several times.
        enough: By output, the share of its energy that is worth knowing of; infinite where it does not count.
        threads: Threads for one operator; 0 is one a core.

    Returns:
        By output and source, the energy that it makes over the output's own; by output, what all make together.

    Raises:
        ModelError: ONNX Runtime does not take the model taken apart.
        DataError: It fails on a sample; the text names it.
    """
    runs, count = Switched(probe, threads), len(probe.sources)
    everything = np.arange(count)
    groups = np.array_split(_in_order(probe), min(GROUPS, count))
    shares, runs_left = _shares(runs, samples, [everything, *groups], count), RUNS - len(groups)
    together, weights = shares[:, 0], list(shares[:, 1:].T)
    while True:
        much = [float((weight / enough).max(initial=0.0)) for weight in weights]
        able = [k for k, group in enumerate(groups) if len(group) > 1 and much[k] > 1]
        chosen = sorted(able, key=lambda k: -much[k])[: min(PARTED, runs_left // PARTS)]
        if not chosen:
            break
        smaller = [
            part for k in chosen for part in np.array_split(groups[k], min(PARTS, len(groups[k])))
        ]
        found = _shares(runs, samples, smaller, count).T
        runs_left -= len(smaller)
        kept = [k for k in range(len(groups)) if k not in chosen]
        groups = [*(groups[k] for k in kept), *smaller]
        weights = [*(weights[k] for k in kept), *found]
    each = np.zeros((len(together), count))
    for group, weight in zip(groups, weights, strict=True):
        each[:, group] = weight[:, None] / len(group)
    return each, together


def _in_order(probe: Probe) -> NDArray[np.intp]:
    """The sources in the order in which a sample meets them."""
    place = {node.name: index for index, node in enumerate(probe.given.nodes)}
    return np.argsort([place.get(source.node, -1) for source in probe.sources], kind="stable")


def _shares(
    runs: Switched, samples: Iterable[Sample], groups: Sequence[NDArray[np.intp]], count: int
) -> Energies:
    """By output and group, the energy of the error over the output's own, over all samples."""
    factors = np.zeros((len(groups), count), np.float32)
    for row, group in zip(factors, groups, strict=True):
        row[group] = 1
    found = [runs.energies(sample, factors) for sample in samples]
    noise: Energies = np.sum([energies for energies, _ in found], axis=0)
    signal: Energies = np.sum([own for _, own in found], axis=0)
    shares: Energies = noise / np.where(signal > 0, signal, 1.0)[:, None]
    return np.nan_to_num(shares, nan=_INFINITE, posinf=_INFINITE)
