"""Solver for the factors that equalize the channels of a family: channels that share scales.

A factor f multiplies a channel of an activation and divides the weights that read it. That changes two errors of the
weighted sums, both estimated here in units of LSB²/12:

    activations:  (width / 255)² · Σ_c E_c / f_c²        width = max_c f_c·max_c − min_c f_c·min_c
    weights:      Σ_o (max_c |w_oc| / f_c / 127)² · Σ_c f_c²·mean(x_c²)

E_c is the energy of the weights that read channel c. With one scale for a whole weight, the maximum is over all
outputs too. The factors then also change the scale of the weights v that write the channels:

    (max_c f_c·|v_c| / 127)² · (energy of their inputs) · Σ_c E_c / f_c²

The candidates are f = size_of_readers^w / (reach^a · size_of_writers^b) for a few exponents a, b and w, rounded to
quarter octaves; the one with the least error is taken. Nagel et al. 2019, "Data-Free Quantization Through Weight
Equalization and Bias Correction", section 4.1, is a = 0, b = w = 1/2. Xiao et al. 2023, "SmoothQuant: Accurate and
Efficient Post-Training Quantization for Large Language Models", uses one exponent for the whole network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ACTIVATION_EXPONENTS = tuple(k / 8 for k in range(1, 9))
_WEIGHT_EXPONENTS = (0.0, 0.25, 0.5)
_WRITER_EXPONENTS = (0.25, 0.5, 0.75, 1.0)
_LEVELS, _SIGNED_LEVELS = 255, 127
_PER_OCTAVE = 4
"""Factors per octave: so coarse that the last digits, which depend on the number of threads, do not change them."""
MIN_RATIO = 2.0**-10
"""A channel counts as at least this share of the largest one."""
MIN_GAIN = 10**0.01
"""The least ratio of errors for which channels are scaled: 0.1 dB."""

Array = NDArray[np.float64]
Groups = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RoundedTensor:
    """The channels of an activation that is rounded with one scale.

    Attributes:
        groups: The group of each channel; channels of one group share a factor.
        least: The lowest value of each channel, at most 0.
        greatest: The highest value of each channel, at least 0.
        reach: The size of each channel that factors equalize, above 0.
        writer: The layer that writes it, if its weights have one scale.
    """

    groups: Groups
    least: Array
    greatest: Array
    reach: Array
    writer: WritingLayer | None = None


@dataclass(frozen=True, eq=False)
class WritingLayer:
    """A layer with one scale for its weights that writes an activation.

    Attributes:
        max_weights: The largest magnitude of the weights of each channel of the activation, above 0.
        input_energy: The sum of the mean squares of the inputs of one weighted sum.
    """

    max_weights: Array
    input_energy: float


@dataclass(frozen=True, eq=False)
class ReadingLayer:
    """A layer that reads an activation.

    Attributes:
        groups: The group of each input channel.
        mean_squares: The mean square of each channel.
        max_weights: The largest magnitude over kernel taps, shape (convolution groups, outputs, channels).
        weight_energies: The energy of the weights of each channel.
        taps: How many kernel taps it has; 0 for a reader without weights.
        output_gains: With one scale for all weights, the gain of an error of each output, shape (convolution
            groups, outputs); None if each output has a scale.
    """

    groups: Groups
    mean_squares: Array
    max_weights: NDArray[np.floating[Any]]
    weight_energies: Array
    taps: int
    output_gains: Array | None = None


@dataclass(frozen=True, eq=False)
class ChannelFamily:
    """Channels that share tensors, directly or through other channels.

    Attributes:
        scalable: Whether the channels of each group belong to the family and may be scaled.
        tensors: The tensors that hold them.
        layers: The layers that read them.
        min_ratio: Sizes below this share of the largest are raised to it.
    """

    scalable: NDArray[np.bool_]
    tensors: Sequence[RoundedTensor]
    layers: Sequence[ReadingLayer]
    min_ratio: float

    def best_factors(self, limits: Array, min_gain: float) -> Array:
        """The factor of each group with the least error; all 1 if the error falls by less than ``min_gain`` times.

        Args:
            limits: The largest factor of each group.
            min_gain: The least ratio of the error without factors to that with them.
        """
        reach, written, uses, energy = np.zeros((4, len(self.scalable)))
        for tensor in self.tensors:
            np.add.at(reach, tensor.groups, np.log2(tensor.reach / tensor.reach.max()))
            np.add.at(uses, tensor.groups, 1)
            if tensor.writer is not None:
                weights = tensor.writer.max_weights
                np.add.at(written, tensor.groups, np.log2(weights / weights.max()))
        for layer in self.layers:
            np.add.at(energy, layer.groups, layer.weight_energies)
        reach /= np.maximum(uses, 1)
        written /= np.maximum(uses, 1)
        most = energy[self.scalable].max()
        best = np.ones(len(self.scalable))
        if not most > 0:
            return best
        sizes = np.log2(np.maximum(energy, most * self.min_ratio**2)) / 2
        least = self._error(best, energy) / min_gain
        exponents = [(a, 0.0) for a in _ACTIVATION_EXPONENTS]
        if any(tensor.writer for tensor in self.tensors):
            exponents += product((0.0, *_ACTIVATION_EXPONENTS), _WRITER_EXPONENTS)
        tried = {best.tobytes()}
        for (a, b), w in product(exponents, _WEIGHT_EXPONENTS):
            factors = self._round_factors(w * sizes - a * reach - b * written, limits)
            if factors.tobytes() in tried:
                continue
            tried.add(factors.tobytes())
            error = self._error(factors, energy)
            if error < least:
                best, least = factors, error
        return best

    def _round_factors(self, logs: Array, limits: Array) -> Array:
        """Factors of quarter octaves within the limits, from logarithms to base 2."""
        logs = logs - logs[self.scalable].mean()
        logs += self._shift(logs)
        factors = np.exp2(np.floor(_PER_OCTAVE * logs + 0.5) / _PER_OCTAVE)
        return np.where(self.scalable, np.minimum(factors, limits), 1.0)

    def _shift(self, logs: Array) -> float:
        """What makes the scalable channels of a tensor reach as far as those that cannot be scaled."""
        shifts = []
        for tensor in self.tensors:
            free = self.scalable[tensor.groups]
            if free.any() and not free.all():
                sizes = np.log2(tensor.reach)
                scaled = sizes + logs[tensor.groups]
                shifts.append(float(sizes[~free].max() - scaled[free].max()))
        return min(shifts, default=0.0)

    def _error(self, factors: Array, energy: Array) -> float:
        """The energy of the error of the sums, by rounded activations and rounded weights, times 12."""
        of_activations = of_weights = 0.0
        for tensor in self.tensors:
            factor = factors[tensor.groups]
            width = float((tensor.greatest * factor).max() - (tensor.least * factor).min())
            gains = energy[tensor.groups] / factor**2
            of_one = (width / _LEVELS) ** 2
            if tensor.writer is not None:
                scale = float((tensor.writer.max_weights * factor).max()) / _SIGNED_LEVELS
                of_one += scale**2 * tensor.writer.input_energy
            of_activations += of_one * float(gains.sum())
        for layer in self.layers:
            factor = factors[layer.groups]
            groups, _, depth = layer.max_weights.shape
            largest = (layer.max_weights / factor.reshape(groups, 1, depth)).max(axis=2)
            squares = np.square(largest / _SIGNED_LEVELS)
            if layer.output_gains is not None:
                squares = squares.max() * layer.output_gains
            inputs = (layer.mean_squares * factor**2).reshape(groups, depth).sum(axis=1)
            of_weights += float((squares.sum(axis=1) * (inputs * layer.taps)).sum())
        return of_activations + of_weights


def raise_small(sizes: Array, min_ratio: float) -> Array:
    """The sizes, raised to a share of the largest, since other samples can be larger; all 1 if all are 0."""
    most = float(sizes.max())
    return np.maximum(sizes, most * min_ratio) if most > 0 else np.ones_like(sizes)
