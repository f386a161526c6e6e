"""Networks that choose, compare, split, repeat, resize and normalize, by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
from networks import network, normal
from onnx import TensorProto
from parts import CONV, WB

_TWO = "d = Conv<pads=[1,1,1,1]>(x, u, b)\n"
_UP = 'coordinate_transformation_mode="asymmetric",nearest_mode="floor"'
_CONSTANTS: dict[str, Any] = {
    "u": normal(8, 3, 3, 3, seed=11, scale=0.1),
    "k": normal(8, 1, 1, seed=12),
    "masks": np.arange(8).reshape(8, 1, 1) % 2 == 0,
    "low": np.float32(-1e9),
    "some": np.float32(0.3),
    "parts": np.array([3, 5], np.int64),
    "times": np.array([1, 2, 1, 1], np.int64),
    "wide": np.array([2, 8, 8, 8], np.int64),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "odd": np.array([1, 1, 1.5, 2.5], np.float32),
    "sizes": np.array([1, 8, 11, 5], np.int64),
    "starts": np.array([0, 7], np.int64),
    "ends": np.array([8, 0], np.int64),
    "plane": np.array([2, 3], np.int64),
    "steps": np.array([2, -2], np.int64),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
    "filling": np.float32(0.7),
    "fillings": np.array([0.7], np.float32),
    # blocks of 2 × 2 after one row of padding on either side: 8 × 8 to 10 × 8
    "around": np.array([0, 0, 1, 0, 0, 0, 1, 0], np.int64),
    "blocks": np.array([1, 8, 5, 2, 4, 2], np.int64),
    "batches": np.array([4, 8, 5, 4], np.int64),
    "unblocks": np.array([2, 2, 1, 8, 5, 4], np.int64),
    "image": np.array([1, 8, 10, 8], np.int64),
    "first": np.array([1], np.int64),
    "last": np.array([9], np.int64),
    "rows": np.array([2], np.int64),
}
SPACE_TO_BATCH = (
    "p = Pad(c, around)\nr = Reshape(p, blocks)\n"
    "t = Transpose<perm=[3,5,0,1,2,4]>(r)\nq = Reshape(t, batches)\n"
)
BATCH_TO_SPACE = (
    "br = Reshape(q, unblocks)\nbt = Transpose<perm=[2,3,4,0,5,1]>(br)\n"
    "bi = Reshape(bt, image)\ny = Slice(bi, first, last, rows)"
)


def _of(nodes: str, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """The nodes behind a convolution to c and, where they read it, one to d."""
    words = set(re.findall(r"\w+", nodes))
    lines = CONV + (_TWO if "d" in words else "") + nodes
    needed = words | ({"u"} if "d" in words else set())
    constants = {name: array for name, array in _CONSTANTS.items() if name in needed}
    return network(lines, types={"y": kind}, **WB, **constants)


ROWS = {
    "maximum": _of("y = Max(c, d, k)"),
    "minimum with a sigmoid": _of("s = Sigmoid(d)\ny = Min(c, s)"),
    "where": _of("y = Where(masks, c, d)"),
    "where by a comparison": _of("m = Greater(c, d)\ny = Where(m, c, d)"),
    "where with a constant": _of("y = Where(masks, c, some)"),
    "where that masks": _of("y = Where(masks, c, low)"),
    "equal": _of("y = Equal(c, d)", TensorProto.BOOL),
    "not equal": _of("m = Equal(c, d)\ny = Not(m)", TensorProto.BOOL),
    "less or equal a constant": _of("y = LessOrEqual(c, k)", TensorProto.BOOL),
    "argmax": _of("y = ArgMax<axis=1>(c)", TensorProto.INT64),
    "argmin of the last": _of(
        "y = ArgMin<axis=2,keepdims=0,select_last_index=1>(c)", TensorProto.INT64
    ),
    "reduce max": _of("m = ReduceMax<axes=[2]>(c)\ny = ReduceMin<axes=[1,2],keepdims=0>(m)"),
    "reduce max with keepdims of 2": _of("y = ReduceMax<axes=[2],keepdims=2>(c)"),
    "pools with a ceil_mode of neither 0 nor 1": _of(
        "m = MaxPool<kernel_shape=[3,3],strides=[2,2],ceil_mode=2>(c)\n"
        "y = AveragePool<kernel_shape=[2,2],strides=[2,2],ceil_mode=-1>(m)"
    ),
    "global max pool": _of("y = GlobalMaxPool(c)"),
    "reduce sum": _of("y = ReduceSum(c, plane)"),
    "split of one read": _of("a, e = Split<axis=1>(c)\ny = Relu(e)"),
    "split of other sizes": _of("a, e = Split<axis=1>(c, parts)\ny = Concat<axis=1>(e, a)"),
    "tile": _of("y = Tile(c, times)"),
    "expand": _of("g = GlobalAveragePool(c)\ny = Expand(g, wide)"),
    "nearest": _of(f'y = Resize<mode="nearest",{_UP}>(c, none, twice)'),
    "nearest by a fraction": _of("y = Resize(c, none, odd)"),
    "nearest to a size": _of("y = Resize(c, none, none, sizes)"),
    "linear": _of('y = Resize<mode="linear">(c, none, twice)'),
    "linear with corners": _of(
        'y = Resize<mode="linear",coordinate_transformation_mode="align_corners">'
        "(c, none, none, sizes)"
    ),
    "cubic": _of('y = Resize<mode="cubic">(c, none, twice)'),
    "log softmax": _of("y = LogSoftmax<axis=1>(c)"),
    "l2 norm": _of("y = LpNormalization<axis=1>(c)"),
    "strided slice": _of("y = Slice(c, starts, ends, plane, steps)"),
    "pad with a value": _of("y = Pad(c, pads, filling)"),
    "pad with one value of rank 1": _of("y = Pad(c, pads, fillings)"),
    "depth to space": _of("y = DepthToSpace<blocksize=2>(c)"),
    "depth to space by columns": _of('y = DepthToSpace<blocksize=2,mode="CRD">(c)'),
    "space to depth": _of("y = SpaceToDepth<blocksize=2>(c)"),
    "space to batch and back": _of(SPACE_TO_BATCH + BATCH_TO_SPACE),
}
