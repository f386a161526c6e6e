"""Random one-operator models for LiteRT's operators that only move integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from litert_cases import Case, Draw, Tensor, same, setting


def _settings(x: Tensor, **given: Any) -> Case:
    return Case(given, [x, *(setting(name, value) for name, value in given.items())], same(x))


def _image(d: Draw, channels: int | None = None) -> Tensor:
    return d.x("input", d.one(1, 2, 3), d.size(), d.size(), channels or d.one(1, 3, 16))


def _reshape(d: Draw) -> Case:
    x = d.x("input", *d.shape())
    shape = list(d.rng.permutation(x["value"].shape).tolist())
    if d.chance():
        shape[int(d.rng.integers(len(shape)))] = -1
    return Case({"new_shape": shape}, [x, setting("shape", shape)], same(x))


def _squeeze(d: Draw) -> Case:
    x = d.x("input", *(d.one(1, d.size()) for _ in range(4)))
    ones = [i for i, n in enumerate(x["value"].shape) if n == 1]
    return Case({"squeeze_dims": [i for i in ones if d.chance()]}, [x], same(x))


def _transpose(d: Draw) -> Case:
    x = d.x("input", *d.shape(1, 5))
    return _settings(x, perm=d.rng.permutation(x["value"].ndim).tolist())


def _concatenation(d: Draw) -> Case:
    shape, axis = d.shape(), 0
    axis = int(d.rng.integers(len(shape)))
    first = d.x("input0", *shape)
    others = [
        d.x(f"input{i}", *shape[:axis], d.size(), *shape[axis + 1 :], like=first)
        for i in range(1, int(d.rng.integers(2, 5)))
    ]
    given = {"axis": axis - len(shape) if d.chance(0.3) else axis, "activation": "NONE"}
    return Case(given, [first, *others], same(first))


def _depth(d: Draw, *, to_space: bool) -> Case:
    block = d.one(1, 2, 3)
    x = _image(d, d.size() * block**2 if to_space else None)
    if not to_space:
        n, h, w, c = x["value"].shape
        x["value"] = d.q(n, h * block, w * block, c)
    return Case({"block_size": block}, [x], same(x))


def _pads(d: Draw, rank: int) -> list[list[int]]:
    return d.rng.integers(0, 4, (rank, 2)).tolist()


def _pad(d: Draw) -> Case:
    x = d.x("input", *d.shape(1, 5))
    return _settings(x, paddings=_pads(d, x["value"].ndim))


def _padv2(d: Draw) -> Case:
    x = d.x("input", *d.shape(1, 5))
    pads = _pads(d, x["value"].ndim)
    filling = d.x("constant", 1, like=x, role="const")
    return Case({"paddings": pads}, [x, setting("paddings", pads), filling], same(x))


def _gather(d: Draw) -> Case:
    x = d.x("input", *d.shape())
    axis = int(d.rng.integers(x["value"].ndim))
    indices = d.rng.integers(0, x["value"].shape[axis], d.shape(1, 2))
    return Case({"axis": axis, "batch_dims": 0}, [x, setting("indices", indices)], same(x))


def _space_to_batch(d: Draw) -> Case:
    block = [d.one(1, 2, 3), d.one(1, 2, 3)]
    x = _image(d)
    pads = []
    for size, b in zip(x["value"].shape[1:3], block, strict=True):
        before = int(d.rng.integers(0, 3))
        pads.append([before, -(size + before) % b])
    return _settings(x, block=block, paddings=pads)


def _batch_to_space(d: Draw) -> Case:
    block = [d.one(1, 2, 3), d.one(1, 2, 3)]
    x = d.x("input", block[0] * block[1] * d.one(1, 2), d.size(), d.size(), d.one(1, 5))
    crops = []
    for size, b in zip(x["value"].shape[1:3], block, strict=True):
        before = int(d.rng.integers(0, size * b))
        crops.append([before, int(d.rng.integers(0, size * b - before))])
    return _settings(x, block=block, crops=crops)


def _slice(d: Draw) -> Case:
    x = d.x("input", *d.shape())
    begin = [int(d.rng.integers(n)) for n in x["value"].shape]
    size = [
        -1 if d.chance(0.2) else int(d.rng.integers(1, n - b + 1))
        for n, b in zip(x["value"].shape, begin, strict=True)
    ]
    case = _settings(x, begin=begin, size=size)
    shape = [n - b if s == -1 else s for n, b, s in zip(x["value"].shape, begin, size, strict=True)]
    return replace(case, shape=tuple(shape))


def _part_spoken_of(d: Draw) -> Case:
    """A slice that does not name every axis, or makes one."""
    x = d.x("input", *d.shape(2, 4))
    begin = [
        int(d.rng.integers(n))
        for n in x["value"].shape[: int(d.rng.integers(1, x["value"].ndim + 1))]
    ]
    end = [int(d.rng.integers(b + 1, n + 1)) for b, n in zip(begin, x["value"].shape, strict=False)]
    given = {"begin": begin, "end": end, "strides": [1] * len(begin)}
    mask = d.one("shrink_axis_mask", "ellipsis_mask", "new_axis_mask")
    tensors = [x, *(setting(name, value) for name, value in given.items())]
    return Case({**given, mask: 1 << int(d.rng.integers(len(begin)))}, tensors, same(x))


def _strided_slice(d: Draw) -> Case:
    """Never an empty result."""
    if d.chance(0.3):
        return _part_spoken_of(d)
    x = d.x("input", *d.shape(1, 4))
    begin, end, strides, masks = [], [], [], [0, 0, 0]
    for axis, n in enumerate(x["value"].shape):
        step, first = d.one(1, 1, 2, -1, -2), int(d.rng.integers(n))
        last = int(
            d.rng.integers(first + 1, n + 1) if step > 0 else d.rng.integers(-n - 1, first - n)
        )
        begin.append(first - n if d.chance(0.3) else first)
        end.append(last), strides.append(step)
        for mask, share in enumerate((0.2, 0.2, 0.15)):
            if d.chance(share):
                masks[mask] |= 1 << axis
        if masks[2] >> axis & 1:  # one position: LiteRT wants a positive step and no masks here
            strides[-1], masks[0], masks[1] = 1, masks[0] & ~(1 << axis), masks[1] & ~(1 << axis)
    given = {"begin": begin, "end": end, "strides": strides}
    names = ("begin_mask", "end_mask", "shrink_axis_mask")
    tensors = [x, *(setting(name, value) for name, value in given.items())]
    return Case({**given, **dict(zip(names, masks, strict=True))}, tensors, same(x))


def _shape(d: Draw) -> Case:
    return Case({"out_type": 2}, [d.x("input", *d.shape())], "int32")


def _arg(d: Draw) -> Case:
    x = d.x("input", *d.shape())
    if d.chance():
        x["value"] = x["value"] // 64  # equal values: the first counts
    axis = int(d.rng.integers(-x["value"].ndim, x["value"].ndim))
    return Case({"axis": axis, "output_type": 2}, [x, setting("axis", [axis])], "int32")


def _select(d: Draw) -> Case:
    shape = d.shape(1, 4)
    a, b = (d.x(f"input{i}", *(n if d.chance(0.8) else 1 for n in shape)) for i in (1, 2))
    b |= {"scale": a["scale"], "zero": a["zero"]}
    condition = setting("condition", d.q(*shape) > 0, np.bool_, "input")
    return Case({}, [condition, a, b], same(a))


def _tile(d: Draw) -> Case:
    x = d.x("input", *d.shape())
    return _settings(x, multiples=[d.one(1, 2, 3) for _ in x["value"].shape])


def _broadcast(d: Draw) -> Case:
    shape = d.shape(1, 4)
    x = d.x("input", *(n if d.chance() else 1 for n in shape))
    return _settings(x, shape=[d.size(3), *shape] if len(shape) < 4 else list(shape))


MOVES: Mapping[str, Callable[[Draw], Case]] = {
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": lambda d: _depth(d, to_space=True),
    "SPACE_TO_DEPTH": lambda d: _depth(d, to_space=False),
    "PAD": _pad,
    "PADV2": _padv2,
    "GATHER": _gather,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "SHAPE": _shape,
    "ARG_MAX": _arg,
    "ARG_MIN": _arg,
    "SELECT_V2": _select,
    "TILE": _tile,
    "BROADCAST_TO": _broadcast,
}
