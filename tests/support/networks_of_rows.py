"""Networks that choose, compare, split, repeat, resize and normalize, by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
from networks import build_network, gaussian_array
from onnx import TensorProto
from parts import CONV, WB

_SECOND_CONV = "d = Conv<pads=[1,1,1,1]>(x, u, b)\n"
_RESIZE_MODE = 'coordinate_transformation_mode="asymmetric",nearest_mode="floor"'
_CONSTANTS: dict[str, Any] = {
    "u": gaussian_array(8, 3, 3, 3, seed=11, scale=0.1),
    "k": gaussian_array(8, 1, 1, seed=12),
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


def _network_of(nodes: str, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """The nodes behind a convolution to c and, where they read it, one to d."""
    words = set(re.findall(r"\w+", nodes))
    lines = CONV + (_SECOND_CONV if "d" in words else "") + nodes
    needed = words | ({"u"} if "d" in words else set())
    constants = {name: array for name, array in _CONSTANTS.items() if name in needed}
    return build_network(lines, types={"y": kind}, **WB, **constants)


OTHER_OP_CASES = {
    "maximum": _network_of("y = Max(c, d, k)"),
    "minimum with a sigmoid": _network_of("s = Sigmoid(d)\ny = Min(c, s)"),
    "where": _network_of("y = Where(masks, c, d)"),
    "where by a comparison": _network_of("m = Greater(c, d)\ny = Where(m, c, d)"),
    "where with a constant": _network_of("y = Where(masks, c, some)"),
    "where that masks": _network_of("y = Where(masks, c, low)"),
    "equal": _network_of("y = Equal(c, d)", TensorProto.BOOL),
    "not equal": _network_of("m = Equal(c, d)\ny = Not(m)", TensorProto.BOOL),
    "less or equal a constant": _network_of("y = LessOrEqual(c, k)", TensorProto.BOOL),
    "argmax": _network_of("y = ArgMax<axis=1>(c)", TensorProto.INT64),
    "argmin of the last": _network_of(
        "y = ArgMin<axis=2,keepdims=0,select_last_index=1>(c)", TensorProto.INT64
    ),
    "reduce max": _network_of(
        "m = ReduceMax<axes=[2]>(c)\ny = ReduceMin<axes=[1,2],keepdims=0>(m)"
    ),
    "reduce max with keepdims of 2": _network_of("y = ReduceMax<axes=[2],keepdims=2>(c)"),
    "pools with a ceil_mode of neither 0 nor 1": _network_of(
        "m = MaxPool<kernel_shape=[3,3],strides=[2,2],ceil_mode=2>(c)\n"
        "y = AveragePool<kernel_shape=[2,2],strides=[2,2],ceil_mode=-1>(m)"
    ),
    "global max pool": _network_of("y = GlobalMaxPool(c)"),
    "reduce sum": _network_of("y = ReduceSum(c, plane)"),
    "split of one read": _network_of("a, e = Split<axis=1>(c)\ny = Relu(e)"),
    "split of other sizes": _network_of("a, e = Split<axis=1>(c, parts)\ny = Concat<axis=1>(e, a)"),
    "tile": _network_of("y = Tile(c, times)"),
    "expand": _network_of("g = GlobalAveragePool(c)\ny = Expand(g, wide)"),
    "nearest": _network_of(f'y = Resize<mode="nearest",{_RESIZE_MODE}>(c, none, twice)'),
    "nearest by a fraction": _network_of("y = Resize(c, none, odd)"),
    "nearest to a size": _network_of("y = Resize(c, none, none, sizes)"),
    "linear": _network_of('y = Resize<mode="linear">(c, none, twice)'),
    "linear with corners": _network_of(
        'y = Resize<mode="linear",coordinate_transformation_mode="align_corners">'
        "(c, none, none, sizes)"
    ),
    "cubic": _network_of('y = Resize<mode="cubic">(c, none, twice)'),
    "log softmax": _network_of("y = LogSoftmax<axis=1>(c)"),
    "l2 norm": _network_of("y = LpNormalization<axis=1>(c)"),
    "strided slice": _network_of("y = Slice(c, starts, ends, plane, steps)"),
    "pad with a value": _network_of("y = Pad(c, pads, filling)"),
    "pad with one value of rank 1": _network_of("y = Pad(c, pads, fillings)"),
    "depth to space": _network_of("y = DepthToSpace<blocksize=2>(c)"),
    "depth to space by columns": _network_of('y = DepthToSpace<blocksize=2,mode="CRD">(c)'),
    "space to depth": _network_of("y = SpaceToDepth<blocksize=2>(c)"),
    "space to batch and back": _network_of(SPACE_TO_BATCH + BATCH_TO_SPACE),
}
