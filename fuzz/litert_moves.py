"""Random one-operator models for LiteRT's data movement operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from litert_cases import Draw, LitertCase, Tensor, same_params, unquantized_tensor


def _case_of(x: Tensor, **given: Any) -> LitertCase:
    return LitertCase(
        given,
        [x, *(unquantized_tensor(name, value) for name, value in given.items())],
        same_params(x),
    )


def _image(d: Draw, channels: int | None = None) -> Tensor:
    return d.activation(
        "input", d.choose(1, 2, 3), d.size(), d.size(), channels or d.choose(1, 3, 16)
    )


def _reshape(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape())
    shape = list(d.rng.permutation(x["value"].shape).tolist())
    if d.chance():
        shape[int(d.rng.integers(len(shape)))] = -1
    return LitertCase({"new_shape": shape}, [x, unquantized_tensor("shape", shape)], same_params(x))


def _squeeze(d: Draw) -> LitertCase:
    x = d.activation("input", *(d.choose(1, d.size()) for _ in range(4)))
    ones = [i for i, n in enumerate(x["value"].shape) if n == 1]
    return LitertCase({"squeeze_dims": [i for i in ones if d.chance()]}, [x], same_params(x))


def _transpose(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape(1, 5))
    return _case_of(x, perm=d.rng.permutation(x["value"].ndim).tolist())


def _concatenation(d: Draw) -> LitertCase:
    shape, axis = d.shape(), 0
    axis = int(d.rng.integers(len(shape)))
    first = d.activation("input0", *shape)
    others = [
        d.activation(f"input{i}", *shape[:axis], d.size(), *shape[axis + 1 :], like=first)
        for i in range(1, int(d.rng.integers(2, 5)))
    ]
    given = {"axis": axis - len(shape) if d.chance(0.3) else axis, "activation": "NONE"}
    return LitertCase(given, [first, *others], same_params(first))


def _depth_and_space(d: Draw, *, to_space: bool) -> LitertCase:
    block = d.choose(1, 2, 3)
    x = _image(d, d.size() * block**2 if to_space else None)
    if not to_space:
        n, h, w, c = x["value"].shape
        x["value"] = d.integers(n, h * block, w * block, c)
    return LitertCase({"block_size": block}, [x], same_params(x))


def _pads(d: Draw, rank: int) -> list[list[int]]:
    return d.rng.integers(0, 4, (rank, 2)).tolist()


def _pad(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape(1, 5))
    return _case_of(x, paddings=_pads(d, x["value"].ndim))


def _padv2(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape(1, 5))
    pads = _pads(d, x["value"].ndim)
    filling = d.activation("constant", 1, like=x, role="const")
    return LitertCase(
        {"paddings": pads}, [x, unquantized_tensor("paddings", pads), filling], same_params(x)
    )


def _gather(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape())
    axis = int(d.rng.integers(x["value"].ndim))
    indices = d.rng.integers(0, x["value"].shape[axis], d.shape(1, 2))
    return LitertCase(
        {"axis": axis, "batch_dims": 0}, [x, unquantized_tensor("indices", indices)], same_params(x)
    )


def _space_to_batch(d: Draw) -> LitertCase:
    block = [d.choose(1, 2, 3), d.choose(1, 2, 3)]
    x = _image(d)
    pads = []
    for size, b in zip(x["value"].shape[1:3], block, strict=True):
        before = int(d.rng.integers(0, 3))
        pads.append([before, -(size + before) % b])
    return _case_of(x, block=block, paddings=pads)


def _batch_to_space(d: Draw) -> LitertCase:
    block = [d.choose(1, 2, 3), d.choose(1, 2, 3)]
    x = d.activation(
        "input", block[0] * block[1] * d.choose(1, 2), d.size(), d.size(), d.choose(1, 5)
    )
    crops = []
    for size, b in zip(x["value"].shape[1:3], block, strict=True):
        before = int(d.rng.integers(0, size * b))
        crops.append([before, int(d.rng.integers(0, size * b - before))])
    return _case_of(x, block=block, crops=crops)


def _slice(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape())
    begin = [int(d.rng.integers(n)) for n in x["value"].shape]
    size = [
        -1 if d.chance(0.2) else int(d.rng.integers(1, n - b + 1))
        for n, b in zip(x["value"].shape, begin, strict=True)
    ]
    case = _case_of(x, begin=begin, size=size)
    shape = [n - b if s == -1 else s for n, b, s in zip(x["value"].shape, begin, size, strict=True)]
    return replace(case, shape=tuple(shape))


def _partial_slice(d: Draw) -> LitertCase:
    """Draw a strided slice that does not name every axis, or adds an axis."""
    x = d.activation("input", *d.shape(2, 4))
    begin = [
        int(d.rng.integers(n))
        for n in x["value"].shape[: int(d.rng.integers(1, x["value"].ndim + 1))]
    ]
    end = [int(d.rng.integers(b + 1, n + 1)) for b, n in zip(begin, x["value"].shape, strict=False)]
    given = {"begin": begin, "end": end, "strides": [1] * len(begin)}
    mask = d.choose("shrink_axis_mask", "ellipsis_mask", "new_axis_mask")
    tensors = [x, *(unquantized_tensor(name, value) for name, value in given.items())]
    return LitertCase(
        {**given, mask: 1 << int(d.rng.integers(len(begin)))}, tensors, same_params(x)
    )


def _strided_slice(d: Draw) -> LitertCase:
    """Draw a strided slice with a non-empty result."""
    if d.chance(0.3):
        return _partial_slice(d)
    x = d.activation("input", *d.shape(1, 4))
    begin, end, strides, masks = [], [], [], [0, 0, 0]
    for axis, n in enumerate(x["value"].shape):
        step, first = d.choose(1, 1, 2, -1, -2), int(d.rng.integers(n))
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
    tensors = [x, *(unquantized_tensor(name, value) for name, value in given.items())]
    return LitertCase({**given, **dict(zip(names, masks, strict=True))}, tensors, same_params(x))


def _shape(d: Draw) -> LitertCase:
    return LitertCase({"out_type": 2}, [d.activation("input", *d.shape())], "int32")


def _arg_max(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape())
    if d.chance():
        x["value"] = x["value"] // 64  # equal values: the first counts
    axis = int(d.rng.integers(-x["value"].ndim, x["value"].ndim))
    return LitertCase(
        {"axis": axis, "output_type": 2}, [x, unquantized_tensor("axis", [axis])], "int32"
    )


def _select(d: Draw) -> LitertCase:
    shape = d.shape(1, 4)
    a, b = (d.activation(f"input{i}", *(n if d.chance(0.8) else 1 for n in shape)) for i in (1, 2))
    b |= {"scale": a["scale"], "zero": a["zero"]}
    condition = unquantized_tensor("condition", d.integers(*shape) > 0, np.bool_, "input")
    return LitertCase({}, [condition, a, b], same_params(a))


def _tile(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape())
    return _case_of(x, multiples=[d.choose(1, 2, 3) for _ in x["value"].shape])


def _broadcast_to(d: Draw) -> LitertCase:
    shape = d.shape(1, 4)
    x = d.activation("input", *(n if d.chance() else 1 for n in shape))
    return _case_of(x, shape=[d.size(3), *shape] if len(shape) < 4 else list(shape))


DATA_MOVEMENT: Mapping[str, Callable[[Draw], LitertCase]] = {
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": lambda d: _depth_and_space(d, to_space=True),
    "SPACE_TO_DEPTH": lambda d: _depth_and_space(d, to_space=False),
    "PAD": _pad,
    "PADV2": _padv2,
    "GATHER": _gather,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "SHAPE": _shape,
    "ARG_MAX": _arg_max,
    "ARG_MIN": _arg_max,
    "SELECT_V2": _select,
    "TILE": _tile,
    "BROADCAST_TO": _broadcast_to,
}
