"""Evaluation inputs whose values are far from those of the calibration inputs: prepared with another scale or mean.

Two sets of samples from one source rarely have many values beyond the extremes of the other set. The inputs are
diagnosed if a tenth of the values of one set, or more, lie outside the range of the other, and this is not chance.

Chance is the probability that so many of n samples lie outside the range of N others, if all n + N are from one
source, and each sample is as different from the others as it can be: one value. The number of samples outside is then
beta-binomial with the parameters n, 2 and N − 1 (Wilks 1941, Determination of Sample Sizes for Setting Tolerance
Limits).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from ptq.core.errors import ModelError
from ptq.data import Sample
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph
from ptq.model.metadata import PROVENANCE, read_record
from ptq.model.node import get_name
from ptq.observers.input_quantiles import LEVELS, InputQuantiles
from ptq.solver.quantizer import CalibratedModel

MIN_SHARE = 0.1
"""Share of values outside the range of the other set. In sound data it is below 0.01."""
SIGNIFICANCE_LEVEL = 0.02
_TOLERANCE = 0.005
"""Share of its width by which a range is widened."""
_ROUNDING = 5e-4
"""Share of a value by which quantiles of 4 digits differ from it."""
_MASK = {0.0, 1.0}


@dataclass
class _Observed:
    """What one input was on the evaluation samples."""

    low: float
    high: float
    least: float = np.inf
    greatest: float = -np.inf
    samples: int = 0
    samples_outside: int = 0
    values: int = 0
    values_outside: int = 0


class InputShiftCheck:
    """Watches the inputs of evaluated samples, and compares them with the calibration inputs."""

    def __init__(self, known: InputQuantiles | None) -> None:
        """``known`` are the values of the calibration inputs; None if they are unknown, and nothing is found."""
        self._known = InputQuantiles(0, {}) if known is None else known
        self._observed: dict[str, _Observed] = {}
        for name, quantiles in self._known.values.items():
            margin = _find_margin(quantiles)
            self._observed[name] = _Observed(quantiles[0] - margin, quantiles[-1] + margin)

    def add(self, sample: Sample) -> None:
        """Count the inputs of a sample."""
        for name, seen in self._observed.items():
            if name in sample.feed:
                _count(sample, name, seen)

    def find(self) -> tuple[Diagnosis, ...]:
        """A diagnosis of each input whose values are far from those of the calibration samples."""
        found = (self._diagnose(name, seen) for name, seen in self._observed.items())
        return tuple(diagnosis for diagnosis in found if diagnosis is not None)

    def _diagnose(self, name: str, seen: _Observed) -> Diagnosis | None:
        if not seen.values:
            return None
        quantiles, samples = self._known.values[name], self._known.samples
        if {quantiles[0], quantiles[-1], seen.least, seen.greatest} <= _MASK and (
            quantiles[0] == quantiles[-1]
        ):
            return None  # a mask that was constant
        share, unused = seen.values_outside / seen.values, _compute_share_outside(quantiles, seen)
        here = f"{seen.least:.3g} … {seen.greatest:.3g}"
        there = f"{quantiles[0]:.3g} … {quantiles[-1]:.3g}"
        if share >= MIN_SHARE and _is_significant(seen.samples_outside, seen.samples, samples):
            what = f"{share:.0%} of its values ({here}) lie outside the calibration range ({there})"
        elif unused >= MIN_SHARE and _is_significant(int(unused * samples), samples, seen.samples):
            what = (
                f"{unused:.0%} of the calibration values ({there}) lie outside its range ({here})"
            )
        else:
            return None
        return Diagnosis(
            what.replace("%", " %"),
            f"model input {name}, evaluation samples",
            "prepare them as the calibration samples: with the same scale, mean and std",
            serious=True,
        )


def summarize_calibration_inputs(model: CalibratedModel) -> InputQuantiles:
    """Values of the model's inputs over the calibration samples, as far as they were observed."""
    names, calibration = [get_name(v) for v in model.source.inputs], model.calibration
    return InputQuantiles.from_statistics(names, calibration.tensors, calibration.samples)


def read_recorded_inputs(*graphs: Graph) -> InputQuantiles | None:
    """The same, as the first of the graphs records it that does; None without a readable record."""
    for graph in graphs:
        try:
            known = InputQuantiles.from_record(read_record(graph, PROVENANCE))
        except ModelError:
            continue
        if known is not None:
            return known
    return None


def _count(sample: Sample, name: str, seen: _Observed) -> None:
    array = sample.feed[name]
    if array.dtype.kind != "f" or not array.size:
        return
    least, greatest = float(array.min()), float(array.max())
    outside = 0
    if not (seen.low <= least and greatest <= seen.high):  # also if one of them is NaN
        finite = array[np.isfinite(array)]
        if not finite.size:
            return
        least, greatest = float(finite.min()), float(finite.max())
        outside = int(np.count_nonzero((finite < seen.low) | (finite > seen.high)))
    seen.least, seen.greatest = min(seen.least, least), max(seen.greatest, greatest)
    seen.samples += 1
    seen.samples_outside += outside >= MIN_SHARE * array.size
    seen.values += array.size
    seen.values_outside += outside


def _find_margin(quantiles: tuple[float, ...]) -> float:
    lo, hi = quantiles[0], quantiles[-1]
    return max(_TOLERANCE * (hi - lo), _ROUNDING * max(abs(lo), abs(hi)))


def _compute_share_outside(quantiles: tuple[float, ...], seen: _Observed) -> float:
    """Share of the calibration values outside the range of the evaluation samples: at least so many."""
    margin = _find_margin(quantiles)
    levels = np.array(LEVELS)
    below = levels[np.array(quantiles) < seen.least - margin]
    above = levels[np.array(quantiles) > seen.greatest + margin]
    return float((below.max() if below.size else 0) + (1 - above.min() if above.size else 0))


def _is_significant(outside: int, samples: int, others: int) -> bool:
    """Whether chance rarely puts so many of the samples, or more, outside the range of the others."""
    if outside < 1 or others < 2:
        return False
    counts = np.arange(outside, samples + 1)
    ways = -np.log(samples + 1) - scipy.special.betaln(samples - counts + 1, counts + 1)
    beta = scipy.special.betaln(counts + 2, samples - counts + others - 1)
    chance = np.exp(ways + beta - scipy.special.betaln(2, others - 1)).sum()
    return bool(chance < SIGNIFICANCE_LEVEL)
