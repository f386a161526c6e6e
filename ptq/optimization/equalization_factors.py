"""Which factors make channels that share them so alike that one scale a tensor serves them best?

What a factor wins where a channel is rounded it may cost where a layer reads it: its weights take the inverse, and
those of one sum share a scale. A depthwise layer pays nothing. Both errors are estimated, and of a few families
of factors those are taken with which they are least together; after Nagel et al. 2019, "Data-Free Quantization
Through Weight Equalization and Bias Correction", section 4.1, whose factors weigh the weights only, and Xiao et al.
2023, "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.model.layer_weights import input_channel_view
from ptq.model.node import Node, constant_of, name_of
from ptq.observers.channel_spread import ChannelSpread
from ptq.rewrite.equalize.channel_groups import FIXED, ChannelGroups
from ptq.rewrite.equalize.union_find import GroupNumbers

_ACTIVATION_EXPONENTS = tuple(k / 8 for k in range(1, 9))
_WEIGHT_EXPONENTS = (0.0, 0.25, 0.5)
_LEVELS, _SIGNED_LEVELS = 255, 127
_PER_OCTAVE = 4
"""An octave: so coarse that last digits, which the number of threads changes, make no other factors."""
_MIN_RATIO = 2.0**-4
"""Of the greatest: a channel that is smaller counts as so great, for other samples may wake it."""
_MIN_GAIN = 10**0.01
"""The errors' ratio from which factors are given: a tenth of a decibel."""
_MIN_GAIN_BOUNDARY = 10**0.1
"""The same where quantizers take a little time for it."""
_MIN_GAIN_GATE = 2.0
"""The same where a gate takes some time for it."""
_BOUND_MARGIN = 1.5
"""How many times as far from zero a bound must be as a channel went, for that to stay below it on other samples."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Tensor:
    """What is rounded: how far its channels go below zero, above it, and to either side."""

    numbers: GroupNumbers
    least: Array
    greatest: Array
    magnitude: Array


@dataclass(frozen=True, eq=False)
class _Layer:
    """What reads a tensor: the channels' mean squares, the weights' sizes and, by channel, their energy."""

    numbers: GroupNumbers
    mean_squares: Array
    max_weights: Array  # (groups, outputs, channels), the largest of the taps
    weight_energies: Array
    taps: int


def equalization_factors(
    found: ChannelGroups, spreads: Mapping[str, ChannelSpread], *, through_clips: bool
) -> Array:
    """The factor of each number; all 1 where nothing is gained.

    Args:
        found: Numbered channels.
        spreads: What the tensors hold that are rounded.
        through_clips: Whether channels that a Clip bounds may be scaled, as far as they kept away from the bounds.
    """
    limits = _factor_limits(found, spreads, through_clips)
    names = [name for name in found.groups if name in spreads]
    tensors = [_tensor(found.groups[name], spreads[name]) for name in names]
    layers = list(_layers(found, spreads))
    left = [
        found.groups[n] for n in names if n in found.boundaries and n not in found.float_written
    ]
    gated, between = np.zeros((2, found.group_count), bool)
    for node in found.gated_nodes:
        gated[found.input_groups(node)] = True
    for name in found.boundaries:
        between[found.groups[name]] = True
    factors = np.ones(found.group_count)
    for inside in _channel_families(found.group_count, [tensor.numbers for tensor in tensors]):
        reading = [layer for layer in layers if inside[layer.numbers].any()]
        leaving = [numbers for numbers in left if inside[numbers].any()]
        family = _Family(
            inside & (limits > 1),
            [tensor for tensor in tensors if inside[tensor.numbers].any()],
            [*reading, *(_boundary_layer(numbers, reading) for numbers in leaving)],
        )
        if family.scalable.any() and family.layers:
            worth = _MIN_GAIN_BOUNDARY if (family.scalable & between).any() else _MIN_GAIN
            worth = _MIN_GAIN_GATE if (family.scalable & gated).any() else worth
            factors[family.scalable] = family.best_factors(limits, worth)[family.scalable]
    return factors


@dataclass(frozen=True, eq=False)
class _Family:
    """Channels that share tensors, directly or by others.

    Attributes:
        free: By number, whether the channel is among them and may be scaled.
        tensors: Those that hold any.
        layers: Those that read any.
    """

    scalable: NDArray[np.bool_]
    tensors: Sequence[_Tensor]
    layers: Sequence[_Layer]

    def best_factors(self, limits: Array, worth: float) -> Array:
        """The factors with which the error is least; all 1 where it is not that many times less."""
        reach, seen, energy = np.zeros((3, len(self.scalable)))
        for tensor in self.tensors:
            np.add.at(reach, tensor.numbers, np.log2(tensor.magnitude / tensor.magnitude.max()))
            np.add.at(seen, tensor.numbers, 1)
        for layer in self.layers:
            np.add.at(energy, layer.numbers, layer.weight_energies)
        reach /= np.maximum(seen, 1)
        most = energy[self.scalable].max()
        if not most > 0:
            return np.ones(len(self.scalable))
        sizes = np.log2(np.maximum(energy, most * _MIN_RATIO**2)) / 2
        best = np.ones(len(self.scalable))
        least = self._error(best, energy) / worth
        for a in _ACTIVATION_EXPONENTS:
            for w in _WEIGHT_EXPONENTS:
                by = self._factors(w * sizes - a * reach, limits)
                error = self._error(by, energy)
                if error < least:
                    best, least = by, error
        return best

    def _factors(self, logs: Array, limits: Array) -> Array:
        logs = logs - logs[self.scalable].mean()
        logs += self._shift(logs)
        by = np.exp2(np.floor(_PER_OCTAVE * logs + 0.5) / _PER_OCTAVE)
        return np.where(self.scalable, np.minimum(by, limits), 1.0)

    def _shift(self, logs: Array) -> float:
        """What brings the free channels to as far as those beside them go that must stay as they are."""
        shifts = []
        for tensor in self.tensors:
            free = self.scalable[tensor.numbers]
            if free.any() and not free.all():
                sizes = np.log2(tensor.magnitude)
                scaled = sizes + logs[tensor.numbers]
                shifts.append(float(sizes[~free].max() - scaled[free].max()))
        return min(shifts, default=0.0)

    def _error(self, by: Array, energy: Array) -> float:
        """The energy of the sums' error, by rounding activations and by rounding weights, times 12."""
        of_activations = of_weights = 0.0
        for tensor in self.tensors:
            factor = by[tensor.numbers]
            width = float((tensor.greatest * factor).max() - (tensor.least * factor).min())
            carried = energy[tensor.numbers] / factor**2
            of_activations += (width / _LEVELS) ** 2 * float(carried.sum())
        for layer in self.layers:
            factor = by[layer.numbers]
            groups, _, depth = layer.max_weights.shape
            steps = (layer.max_weights / factor.reshape(groups, 1, depth)).max(
                axis=2
            ) / _SIGNED_LEVELS
            carried = (layer.mean_squares * factor**2).reshape(groups, depth).sum(
                axis=1
            ) * layer.taps
            of_weights += float((np.square(steps).sum(axis=1) * carried).sum())
        return of_activations + of_weights


def _tensor(numbers: GroupNumbers, spread: ChannelSpread) -> _Tensor:
    least, greatest = np.minimum(spread.least, 0.0), np.maximum(spread.greatest, 0.0)
    reach = np.maximum(-least, greatest).astype(np.float64)
    most = float(reach.max())
    reach = np.maximum(reach, most * _MIN_RATIO) if most > 0 else np.ones_like(reach)
    return _Tensor(numbers, least.astype(np.float64), greatest.astype(np.float64), reach)


def _layers(found: ChannelGroups, spreads: Mapping[str, ChannelSpread]) -> Iterator[_Layer]:
    for node in found.readers:
        name, table = _layer_input(node)
        if name in spreads:
            yield _Layer(
                found.groups[name],
                spreads[name].sum_of_squares / spreads[name].count,
                np.abs(table).max(axis=3),
                np.square(table).sum(axis=(1, 3)).reshape(-1),
                table.shape[3],
            )


def _boundary_layer(numbers: GroupNumbers, layers: Sequence[_Layer]) -> _Layer:
    """Float that reads a tensor without its factors: all channels count for as much as those that layers read."""
    energies = np.concatenate([layer.weight_energies for layer in layers] or [np.ones(1)])
    none = np.zeros((1, 1, len(numbers)))
    return _Layer(numbers, none[0, 0], none, np.full(len(numbers), energies.mean()), 0)


def _layer_input(node: Node) -> tuple[str, Array]:
    """The tensor that a layer reads, and its weights by channel of that."""
    value, weight = node.inputs[0], constant_of(node.inputs[1])
    assert value is not None and weight is not None
    return name_of(value), input_channel_view(node, weight.astype(np.float64), 1)


def _factor_limits(
    found: ChannelGroups, spreads: Mapping[str, ChannelSpread], through_clips: bool
) -> Array:
    """How large each number's factor may become; at most 1 for those that came near a bound."""
    limits = np.full(found.group_count, np.inf)
    limits[FIXED] = 1
    for name, bounds in found.clip_bounds.items():
        numbers = found.groups[name]
        if name not in spreads or not through_clips:
            limits[numbers] = 1
            continue
        extremes = spreads[name].least, spreads[name].greatest
        for sign, bound, extreme in zip((-1, 1), bounds, extremes, strict=True):
            if bound != 0:  # 0 bounds a channel alike at every scale
                size = np.maximum(sign * extreme.astype(np.float64), np.finfo(np.float32).tiny)
                np.minimum.at(limits, numbers, sign * bound / size / _BOUND_MARGIN)
    return limits


def _channel_families(count: int, tensors: Sequence[GroupNumbers]) -> Iterator[NDArray[np.bool_]]:
    """By number, whether it belongs to a family: those of one tensor do together."""
    family = np.full(count, -1)
    for label, numbers in enumerate(tensors):
        free = numbers[numbers != FIXED]
        joined = np.setdiff1d(family[free], [-1])
        family[free] = label
        family[np.isin(family, joined)] = label
    for label in np.setdiff1d(family, [-1]):
        yield family == label
