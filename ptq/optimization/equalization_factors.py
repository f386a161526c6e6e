"""Factors that equalize the channels of a graph, so that one scale suits each activation.

The channels are split into families that share no tensor; `ptq.optimization.channel_families` solves each. A factor
reduces the error where a channel is rounded, and may increase it where a layer reads the channel: the layer's weights
take the inverse, and those of one sum share a scale. A depthwise layer does not have this cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.channel_spreads import Spreads, merge_spreads
from ptq.model.layer_weights import input_channel_view
from ptq.model.node import Node, constant_of, name_of
from ptq.observers.channel_spread import ChannelSpread
from ptq.optimization.channel_families import (
    ChannelFamily,
    ReadingLayer,
    RoundedTensor,
    raise_small,
)
from ptq.rewrite.equalize.channel_groups import FIXED, ChannelGroups
from ptq.rewrite.equalize.layer_pairs import clip_limits
from ptq.rewrite.equalize.union_find import GroupNumbers

_COPIED_WEIGHTS = 2**22
"""Weights that are converted to float64 at once."""
_MIN_RATIO = 2.0**-4
"""A channel counts as at least this share of the largest one, since it can be larger on other samples."""
_MIN_GAIN = 10**0.01
"""The least ratio of errors for which channels are scaled: 0.1 dB."""
_MIN_GAIN_BOUNDARY = 10**0.1
"""The same where quantizers take a little time for it: 1 dB."""
_MIN_GAIN_GATE = 2.0
"""The same where a gate takes some time for it: 3 dB."""

Array = NDArray[np.float64]


def equalization_factors(
    found: ChannelGroups, folds: Sequence[Spreads], *, through_clips: bool
) -> Array:
    """The factor of each channel group; 1 where nothing is gained.

    Args:
        found: The channel groups of the graph.
        folds: The spread of each tensor that is rounded, in each fold of the samples.
        through_clips: Whether channels between Clip bounds may be scaled, within a margin of the bounds.
    """
    spreads = merge_spreads(folds)
    limits = _factor_limits(found, folds, through_clips)
    names = [name for name in found.groups if name in spreads]
    tensors = [_rounded_tensor(found.groups[name], spreads[name]) for name in names]
    layers = list(_reading_layers(found, spreads))
    float_readers = [
        found.groups[n] for n in names if n in found.boundaries and n not in found.float_written
    ]
    gated, boundary = np.zeros((2, found.group_count), bool)
    for node in found.gated_nodes:
        gated[found.input_groups(node)] = True
    for name in found.boundaries:
        boundary[found.groups[name]] = True
    factors = np.ones(found.group_count)
    for members in _channel_families(found.group_count, [tensor.groups for tensor in tensors]):
        reading = [layer for layer in layers if members[layer.groups].any()]
        in_float = [groups for groups in float_readers if members[groups].any()]
        family = ChannelFamily(
            members & (limits > 1),
            [tensor for tensor in tensors if members[tensor.groups].any()],
            [*reading, *(_float_reader(groups, reading) for groups in in_float)],
            _MIN_RATIO,
        )
        if family.scalable.any() and family.layers:
            min_gain = _MIN_GAIN_BOUNDARY if (family.scalable & boundary).any() else _MIN_GAIN
            min_gain = _MIN_GAIN_GATE if (family.scalable & gated).any() else min_gain
            factors[family.scalable] = family.best_factors(limits, min_gain)[family.scalable]
    return factors


def _rounded_tensor(groups: GroupNumbers, spread: ChannelSpread) -> RoundedTensor:
    least, greatest = np.minimum(spread.least, 0.0), np.maximum(spread.greatest, 0.0)
    reach = raise_small(np.maximum(-least, greatest).astype(np.float64), _MIN_RATIO)
    return RoundedTensor(groups, least.astype(np.float64), greatest.astype(np.float64), reach)


def _reading_layers(found: ChannelGroups, spreads: Spreads) -> Iterator[ReadingLayer]:
    for node in found.readers:
        name, table = _layer_input(node)
        if name in spreads:
            yield ReadingLayer(
                found.groups[name],
                spreads[name].sum_of_squares / spreads[name].count,
                np.abs(table).max(axis=3),
                _energies(table),
                table.shape[3],
            )


def _energies(table: NDArray[np.floating[Any]]) -> Array:
    """The energy of the weights of each input channel; float64 copies take little memory."""
    groups, outputs, channels, taps = table.shape
    at_once = max(1, _COPIED_WEIGHTS // max(1, groups * outputs * taps))
    parts = [
        np.square(table[:, :, start : start + at_once].astype(np.float64)).sum(axis=(1, 3))
        for start in range(0, channels, at_once)
    ]
    return np.concatenate(parts, axis=1).reshape(-1)


def _float_reader(groups: GroupNumbers, layers: Sequence[ReadingLayer]) -> ReadingLayer:
    """A float node that reads a tensor without its factors: each channel counts as much as for a mean layer."""
    energies = np.concatenate([layer.weight_energies for layer in layers] or [np.ones(1)])
    none = np.zeros((1, 1, len(groups)))
    return ReadingLayer(groups, none[0, 0], none, np.full(len(groups), energies.mean()), 0)


def _layer_input(node: Node) -> tuple[str, NDArray[Any]]:
    """The name of the tensor that a layer reads, and its weights by input channel."""
    value, weight = node.inputs[0], constant_of(node.inputs[1])
    assert value is not None and weight is not None
    return name_of(value), input_channel_view(node, weight, 1)


def _factor_limits(found: ChannelGroups, folds: Sequence[Spreads], through_clips: bool) -> Array:
    """The largest factor of each group; at most 1 for channels near a bound."""
    limits = np.full(found.group_count, np.inf)
    limits[FIXED] = 1
    for name, bounds in found.clip_bounds.items():
        groups = found.groups[name]
        seen = [fold[name] for fold in folds if name in fold]
        if not seen or not through_clips:
            limits[groups] = 1
            continue
        extremes = [(spread.least, spread.greatest) for spread in seen]
        np.minimum.at(limits, groups, clip_limits(bounds, extremes))
    return limits


def _channel_families(count: int, tensors: Sequence[GroupNumbers]) -> Iterator[NDArray[np.bool_]]:
    """For each family, whether each group belongs to it; the groups of one tensor belong together."""
    family = np.full(count, -1)
    for label, groups in enumerate(tensors):
        free = groups[groups != FIXED]
        merged = np.setdiff1d(family[free], [-1])
        family[free] = label
        family[np.isin(family, merged)] = label
    for label in np.setdiff1d(family, [-1]):
        yield family == label
