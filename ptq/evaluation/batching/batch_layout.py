"""Where samples stand within an axis: (samples, steps) and (steps, samples) both become one axis of all rows.

A reshape of rows keeps samples apart only if it cuts the axis where they begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ptq.model.node import Node, Value, get_attributes, get_constant, get_operator, get_shape

_RESHAPES = frozenset(["Flatten", "Reshape"])
_BLOCKS = frozenset(["DepthToSpace", "SpaceToDepth"])


class BatchLayout:
    """Follows the batch axis of values through a graph, node by node in order."""

    def __init__(self, batch: int, batch_axes: Callable[[Value | None], list[int]]) -> None:
        """Start with the inputs, whose axes hold sample after sample.

        Args:
            batch: A number that no other length is a multiple of.
            batch_axes: The axes of a value along which its samples lie.
        """
        self._batch, self._batch_axes = batch, batch_axes
        self._repeats: dict[Value, int] = {}

    def mixes_samples(self, node: Node) -> bool:
        """Whether a node puts rows of other samples where a sample's rows are awaited.

        Args:
            node: A node whose outputs have at most one batch axis each; its makers were given before.
        """
        for value in node.outputs:
            axes = self._batch_axes(value)
            if not axes:
                continue
            repeats = self._follow(node, value, axes[0])
            if repeats is None or (_get_lengths(value)[axes[0]] or 0) % (repeats * self._batch):
                return True
            self._repeats[value] = repeats
        return False

    def _follow(self, node: Node, output: Value, axis: int) -> int | None:
        """How often all samples stand one after another along an output's axis; None if they do not."""
        found = [(v, self._batch_axes(v)) for v in node.inputs if v is not None]
        read = [(value, axes[0]) for value, axes in found if axes]
        if not read:
            return 1
        first, before = read[0]
        count, op = self._repeats.get(first, 1), get_operator(node)
        old, new = _get_lengths(first), _get_lengths(output)
        length, after = old[before] or 0, new[axis] or 0
        if op in _RESHAPES:
            return _reshape(count, old[:before], new[:axis])
        if op in _BLOCKS and before:
            return _move_blocks(node, count) if before == 1 else None
        if op == "Concat" and _get_axis(node, new) == axis:
            # pieces of one length; what else is joined has another length, which is no multiple of the batch
            same = all(
                (_get_lengths(v)[a], self._repeats.get(v, 1)) == (length, count) for v, a in read
            )
            return count * len(read) if same and len(read) == len(node.inputs) else None
        if op == "Tile" and after != length:
            return count * (after // length)
        if op in ("Slice", "Split") and after != length:
            parts = length // after if length % after == 0 else 0
            whole = bool(parts) and count % parts == 0 and not _has_steps(node)
            return count // parts if whole else None
        if op == "Slice" and _has_steps(node):
            return None if axis in _find_sliced_axes(node, len(new)) else count
        counts = {self._repeats.get(v, 1) for v, a in read if _get_lengths(v)[a] == after}
        return None if len(counts) > 1 else min(counts, default=1)


def _reshape(count: int, old: tuple[int | None, ...], new: tuple[int | None, ...]) -> int | None:
    """How often all samples repeat along the axis of the batch after a reshape, from the lengths before it."""
    if old == new:
        return count
    known_old, known_new = ([n for n in lengths if n is not None] for lengths in (old, new))
    if (len(known_old), len(known_new)) != (len(old), len(new)):
        return 1  # lengths that only samples show
    before, after = count * math.prod(known_old), math.prod(known_new)
    return before // after if after and before % after == 0 else None


def _move_blocks(node: Node, count: int) -> int | None:
    """How often all samples repeat along the channels after each place of a block became channels, or the reverse."""
    attributes = get_attributes(node)
    places = int(attributes["blocksize"]) ** 2
    if get_operator(node) == "SpaceToDepth":
        return count * places
    is_cut = attributes.get("mode", "DCR") == "CRD" or count % places
    return None if is_cut else count // places


def _get_lengths(value: Value) -> tuple[int | None, ...]:
    return get_shape(value) or ()


def _get_axis(node: Node, shape: tuple[int | None, ...]) -> int:
    return int(get_attributes(node).get("axis", 0)) % len(shape)


def _has_steps(node: Node) -> bool:
    """Whether a Slice has other steps than 1, or such that are computed."""
    value = node.inputs[4] if len(node.inputs) > 4 else None
    steps = get_constant(value)
    return value is not None and (steps is None or bool((steps != 1).any()))


def _find_sliced_axes(node: Node, rank: int) -> set[int]:
    """The axes along which a Slice has another step than 1, all if that is computed."""
    axes = get_constant(node.inputs[3]) if node.inputs[3] is not None else None
    steps = get_constant(node.inputs[4])
    if steps is None or (axes is None and node.inputs[3] is not None):
        return set(range(rank))
    every = range(len(steps)) if axes is None else axes.tolist()
    return {int(a) % rank for a, step in zip(every, steps.tolist(), strict=True) if step != 1}
