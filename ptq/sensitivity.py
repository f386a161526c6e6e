"""Which of the many roundings of a quantized model costs how much of its output?

First all of them at once, by probes: each sample is run through the float model with the error of every source
added where it arises, each with a random sign, a few times. What two such outputs' errors e have in common betrays
each source: with signs s, the mean of s(k) s(l) e(k)·e(l) over pairs of probes k ≠ l is the energy that the source
makes in the output, without bias where errors add up; the shares of the others cancel, but not wholly. Then those
that seem to cost the most are measured, each alone. All of it is first order: what rounding does to rounding further
on is left out. The signs are the same for the same number of sources, samples and probes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.data import Sample
from ptq.errors import DataError
from ptq.rewrite.probe import Probe, Source
from ptq.switched import Switched

SAMPLES, PROBES, ALONE = 12, 12, 8
_SEED = 20240301


@dataclass(frozen=True, eq=False)
class Costs:
    """What every source costs.

    Attributes:
        sources: All of them.
        shares: float64 by source: the energy that it makes in the outputs, over the outputs' own, the mean of all
            outputs; 0 or more.
        errors: The standard error of each share, over samples.
        measured: Whether the source was run alone; what was not is an estimate.
        samples: How many were run.
        runs: How often the float model was run on each.
    """

    sources: tuple[Source, ...]
    shares: NDArray[np.float64]
    errors: NDArray[np.float64]
    measured: NDArray[np.bool_]
    samples: int
    runs: int


def costs(
    probe: Probe,
    samples: Iterable[Sample],
    *,
    probes: int = PROBES,
    alone: int = ALONE,
    threads: int = 0,
) -> Costs:
    """Estimate what each source of error costs, and measure those that cost the most.

    Args:
        probe: The model taken apart.
        samples: Best some that no range was chosen on; they are read twice.
        probes: Runs of each sample with all sources.
        alone: How many sources are run alone.
        threads: Threads for one operator; 0 is one a core.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    runs = Switched(probe, threads)
    count = len(probe.sources)
    rng = np.random.default_rng(_SEED)
    screened = _Shares()
    for sample in samples:
        signs = rng.choice(np.array([-1.0, 1.0], np.float32), (probes, count))
        screened.add(_probed(runs, sample, signs))
    if not screened.energies:
        raise DataError("there is no sample to estimate sensitivity on; give at least one")
    shares, errors = screened.result()
    chosen = np.sort(np.argsort(-shares, kind="stable")[: min(alone, count)])
    single = _Shares()
    one_each = np.eye(count, dtype=np.float32)[chosen]
    for sample in samples if len(chosen) else ():
        single.add(runs.energies(sample, one_each))
    rest = np.ones(count, bool)
    rest[chosen] = False
    total = max(0.0, float(shares.sum()))
    if single.energies:
        shares[chosen], errors[chosen] = single.result()
    positive = np.maximum(shares, 0.0)
    over = float(positive[rest].sum())
    if over:  # what was cut at 0 is taken from the others
        left = max(0.0, total - float(shares[chosen].sum()))
        positive[rest] *= min(1.0, left / over)
    many = probes + len(chosen) + 2
    return Costs(probe.sources, positive, errors, ~rest, len(screened.energies), many)


class _Shares:
    """Energies of the samples seen, by output and source, and of their outputs."""

    def __init__(self) -> None:
        self.energies: list[NDArray[np.float64]] = []
        self.signals: list[NDArray[np.float64]] = []

    def add(self, one: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
        self.energies.append(one[0])
        self.signals.append(one[1])

    def result(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Each source's share of the outputs' energy, and its standard error."""
        signal = np.sum(self.signals, axis=0)
        usable = signal > 0
        weights = usable / np.where(usable, signal, 1.0) / max(1, int(usable.sum()))
        each = np.einsum("jos,o->js", np.array(self.energies), weights)
        return each.sum(axis=0), each.std(axis=0) * np.sqrt(len(each))


def _probed(
    runs: Switched, sample: Sample, signs: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The energy that each source makes in each output of one sample, and each output's own."""
    clean, *rows = runs.noises(sample, signs)
    energies, signals = [], []
    for output, *noises in zip(clean, *rows, strict=True):
        # outputs that hold no floats, or as many as the values of others say, do not count
        usable = noises[0].size > 0 and all(noise.size == noises[0].size for noise in noises)
        energies.append(_common(np.stack(noises), signs) if usable else np.zeros(signs.shape[1]))
        signals.append(float(np.square(output.astype(np.float64)).sum()) if usable else 0.0)
    return np.array(energies), np.array(signals)


def _common(noise: NDArray[np.float32], signs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean over pairs of different probes of s(k) s(l) e(k)·e(l), for each source."""
    products = (noise @ noise.T).astype(np.float64)
    np.fill_diagonal(products, 0.0)
    count = len(signs)
    sums: NDArray[np.float64] = np.einsum("ks,kl,ls->s", signs, products, signs, optimize=True)
    return sums / (count * (count - 1))
