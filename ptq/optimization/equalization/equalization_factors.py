"""Factors that equalize the channels of a graph, so that one scale suits each activation.

The channels are split into families that share no tensor; `ptq.optimization.channel_families` solves each. A factor
reduces the error where a channel is rounded, and may increase it where a layer reads the channel: the layer's weights
take the inverse, and those of one sum share a scale. A depthwise layer does not have this cost.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.channel_spreads import Spreads, merge_spreads
from ptq.model.node import Node, get_input_name, require_constant
from ptq.model.weights.layer_weights import view_input_channels
from ptq.observers.channel_spread import ChannelSpread
from ptq.optimization.channel_families import (
    MIN_GAIN,
    ChannelFamily,
    ReadingLayer,
    RoundedTensor,
    raise_small,
)
from ptq.rewrite.equalize.channel_groups import FIXED, ChannelGroups
from ptq.rewrite.equalize.channel_ties import GroupNumbers
from ptq.rewrite.equalize.layer_pairs import clip_limits

_COPIED_WEIGHTS = 2**22
"""Weights that are converted to float64 at once."""
_MIN_RATIO = 2.0**-4
"""A channel counts as at least this share of the largest one, since it can be larger on other samples."""
_MIN_GAIN_BOUNDARY = 10**0.1
"""`MIN_GAIN` where quantizers take a little time for it: 1 dB."""
_MIN_GAIN_GATE = 2.0
"""The same where a gate takes some time for it: 3 dB."""

Array = NDArray[np.float64]


def compute_equalization_factors(
    found: ChannelGroups,
    folds: Sequence[Spreads],
    *,
    through_clips: bool,
    known: dict[Hashable, Array] | None = None,
) -> Array:
    """The factor of each channel group; 1 where nothing is gained.

    Args:
        found: The channel groups of the graph.
        folds: The spread of each tensor that is rounded, in each fold of the samples.
        through_clips: Whether channels between Clip bounds may be scaled, within a margin of the bounds.
        known: Families that were solved for other groups of the same graph and folds; new ones are added.
    """
    known = {} if known is None else known
    spreads = merge_spreads(folds)
    limits = _compute_factor_limits(found, folds, through_clips)
    factors, gated, boundary = (np.full(found.group_count, n) for n in (1.0, False, False))
    for node in found.gated_nodes:
        gated[found.input_groups(node)] = True
    for name in found.boundaries:
        boundary[found.groups[name]] = True
    for names in _list_families(found, spreads):
        numbers = np.unique(np.concatenate([[FIXED], *(found.groups[name] for name in names)]))
        free = limits[numbers] > 1
        if not free.any():
            continue
        min_gain = _MIN_GAIN_BOUNDARY if boundary[numbers[free]].any() else MIN_GAIN
        min_gain = _MIN_GAIN_GATE if gated[numbers[free]].any() else min_gain
        groups = {name: np.searchsorted(numbers, found.groups[name]) for name in names}
        readers = [node for node in found.readers if get_input_name(node) in groups]
        in_float = [n for n in names if n in found.boundaries and n not in found.float_written]
        key = (
            min_gain, limits[numbers].tobytes(), *readers, *in_float,
            *((name, of.tobytes()) for name, of in groups.items()),
        )  # fmt: skip
        if key not in known:
            family = _describe_family(free, groups, spreads, readers, in_float)
            known[key] = family.best_factors(limits[numbers], min_gain)
        factors[numbers[free]] = known[key][free]
    return factors


def _describe_family(
    scalable: NDArray[np.bool_],
    groups: Mapping[str, GroupNumbers],
    spreads: Spreads,
    readers: Sequence[Node],
    in_float: Sequence[str],
) -> ChannelFamily:
    """The family of tensors with these groups.

    Args:
        scalable: Whether each group may be scaled.
        groups: The group of each channel, by tensor.
        spreads: The spread of each tensor.
        readers: The layers that read the tensors.
        in_float: The tensors that float nodes read.
    """
    layers = [_build_reading_layer(node, groups[get_input_name(node)], spreads) for node in readers]
    return ChannelFamily(
        scalable,
        [_build_rounded_tensor(groups[name], spreads[name]) for name in groups],
        [*layers, *(_build_float_reader(groups[name], layers) for name in in_float)],
        _MIN_RATIO,
    )


def _build_rounded_tensor(groups: GroupNumbers, spread: ChannelSpread) -> RoundedTensor:
    least, greatest = np.minimum(spread.least, 0.0), np.maximum(spread.greatest, 0.0)
    reach = raise_small(np.maximum(-least, greatest).astype(np.float64), _MIN_RATIO)
    return RoundedTensor(groups, least.astype(np.float64), greatest.astype(np.float64), reach)


def _build_reading_layer(node: Node, groups: GroupNumbers, spreads: Spreads) -> ReadingLayer:
    weight, spread = require_constant(node.inputs[1]), spreads[get_input_name(node)]
    table = view_input_channels(node, weight, 1)
    return ReadingLayer(
        groups,
        spread.sum_of_squares / spread.count,
        np.abs(table).max(axis=3),
        _compute_energies(table),
        table.shape[3],
    )


def _compute_energies(table: NDArray[np.floating[Any]]) -> Array:
    """The energy of the weights of each input channel; float64 copies take little memory."""
    groups, outputs, channels, taps = table.shape
    at_once = max(1, _COPIED_WEIGHTS // max(1, groups * outputs * taps))
    parts = [
        np.square(table[:, :, start : start + at_once].astype(np.float64)).sum(axis=(1, 3))
        for start in range(0, channels, at_once)
    ]
    return np.concatenate(parts, axis=1).reshape(-1)


def _build_float_reader(groups: GroupNumbers, layers: Sequence[ReadingLayer]) -> ReadingLayer:
    """A float node that reads a tensor without its factors: each channel counts as much as for a mean layer."""
    energies = np.concatenate([layer.weight_energies for layer in layers] or [np.ones(1)])
    none = np.zeros((1, 1, len(groups)))
    return ReadingLayer(groups, none[0, 0], none, np.full(len(groups), energies.mean()), 0)


def _compute_factor_limits(
    found: ChannelGroups, folds: Sequence[Spreads], through_clips: bool
) -> Array:
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


def _list_families(found: ChannelGroups, measured: Collection[str]) -> list[list[str]]:
    """The measured tensors in families: those that share channels belong together."""
    family = np.full(found.group_count, -1)
    names = [name for name in found.groups if name in measured]
    for label, name in enumerate(names):
        free = found.groups[name][found.groups[name] != FIXED]
        merged = np.setdiff1d(family[free], [-1])
        family[free] = label
        if merged.size:
            family[np.isin(family, merged)] = label
    families: dict[int, list[str]] = {}
    for name in names:
        families.setdefault(int(family[found.groups[name]].max()), []).append(name)
    return list(families.values())
