"""Data movement: views, transpositions, slices, selections and joins.

A RESHAPE reads the stored elements. It is written without a TRANSPOSE where the stored orders before and after agree:
where only spatial axes are joined or split, or axes of length 1 come and go.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.kernels.shape import make_slice
from ptq.rewrite.tflite.emitter import Emitter, find_common_order
from ptq.rewrite.tflite.measured_shapes import DependsOnBatchError
from ptq.rewrite.tflite.operations import Operation
from ptq.rewrite.tflite.orders import (
    Order,
    Shape,
    order_channels_last,
    order_naturally,
    permute_shape,
)
from ptq.rewrite.tflite.signs import can_be_negative

_PROBE_BATCH = 3


def write_view(e: Emitter, o: Operation) -> None:
    """RESHAPE, of Reshape, Flatten, Squeeze and Unsqueeze.

    Matrices take the features of a flattened value in the order that is recorded here.
    """
    x, y = str(o.inputs[0]), o.outputs[0]
    order = e.order(x)
    target = None
    if order is not None:
        is_image = y in e.prefers_last or order != order_naturally(e.rank(x))
        target = find_view_order(_with_batch(e, x), order, _with_batch(e, y), is_image)
    if target is None and order is not None and y in e.free_features:
        features = _find_features(_with_batch(e, x), order, _with_batch(e, y))
        if features is not None:
            e.features[y], target = features, order_naturally(e.rank(y))
    if target is None:
        order, target = order_naturally(e.rank(x)), order_naturally(e.rank(y))
    source = e.read(x, order)
    e.reshape(source, permute_shape(e.signature(y), target), e.write(y, target), y)


def _with_batch(e: Emitter, name: str) -> Shape:
    """The shape with a longer batch, which is not mistaken for an axis of length 1."""
    pairs = zip(e.shape(name), e.signature(name), strict=True)
    return tuple(length if known != -1 else _PROBE_BATCH * length for length, known in pairs)


@lru_cache(maxsize=1024)
def find_view_order(
    shape: Shape, order: Order, result: Shape, is_image: bool = True
) -> Order | None:
    """The order of a view's result that makes it a RESHAPE of the stored elements; None if there is none.

    Args:
        shape: Shape of the input in ONNX's order.
        order: Its stored order.
        result: Shape of the result in ONNX's order.
        is_image: Channels last is preferred where both orders would do.
    """
    positions = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    stored = positions.transpose(order).ravel()
    candidates = [order_channels_last(len(result)), order_naturally(len(result))]
    for candidate in dict.fromkeys(candidates if is_image else candidates[::-1]):
        if np.array_equal(positions.reshape(result).transpose(candidate).ravel(), stored):
            return candidate
    return None


def _find_features(shape: Shape, order: Order, result: Shape) -> NDArray[np.int64] | None:
    """The ONNX feature at each position of a stored value that is flattened as it is; None if it has no such form."""
    if order[0] != 0 or len(result) != 2 or shape[0] != result[0]:
        return None
    features = np.arange(result[1], dtype=np.int64).reshape(shape[1:])
    return features.transpose([axis - 1 for axis in order[1:]]).ravel()


def write_transpose(e: Emitter, o: Operation) -> None:
    """TRANSPOSE; nothing where the stored order already is the wanted one."""
    x, y = str(o.inputs[0]), o.outputs[0]
    rank = e.rank(x)
    given = o.attrs.get("perm")
    perm = tuple(int(p) for p in given) if given is not None else order_naturally(rank)[::-1]
    order = e.order(x)
    if order is None:  # a constant
        order = order_naturally(rank)
    # Stored axis j of x is axis order[j] of x, which is axis perm.index(order[j]) of y.
    seen = tuple(perm.index(axis) for axis in order)
    if x not in e.listed.constants and seen in (
        order_naturally(rank),
        order_channels_last(rank),
    ):
        e.alias(y, x, seen)
        return
    wanted = order_channels_last(rank) if y in e.prefers_last else order_naturally(rank)
    turns = [order.index(perm[axis]) for axis in wanted]
    source = e.read(x, order)
    e.op("TRANSPOSE", [source, e.integers(turns, f"{y}_perm")], [e.write(y, wanted)],
         "TransposeOptions")  # fmt: skip


def write_identity(e: Emitter, o: Operation) -> None:
    """Nothing: the result is the same tensor."""
    x, y = str(o.inputs[0]), o.outputs[0]
    if x in e.listed.constants or e.params(x) != e.params(y):
        order = order_naturally(e.rank(x)) if e.order(x) is None else e.order(x)
        e.reshape(
            e.read(x, order), permute_shape(e.signature(y), order or ()), e.write(y, order), y
        )
        return
    e.alias(y, x, e.order(x) or ())


def write_concat(e: Emitter, o: Operation) -> None:
    """CONCATENATION."""
    y, names = o.outputs[0], [str(name) for name in o.inputs]
    order = find_common_order(e, names)
    axis = order.index(int(o.attrs["axis"]) % e.rank(y))
    dtype = None if e.params(y) else e.dtype(y)
    e.op(
        "CONCATENATION", [e.read(name, order, dtype=dtype) for name in names], [e.write(y, order)],
        "ConcatenationOptions", axis=axis,
        fusedActivationFunction=e.model.number_of("ActivationFunctionType", "NONE"),
    )  # fmt: skip


def write_split(e: Emitter, o: Operation) -> None:
    """SPLIT or SPLIT_V; outputs that nobody reads exist too."""
    x = str(o.inputs[0])
    order = e.order(x) or order_naturally(e.rank(x))
    axis = int(o.attrs.get("axis", 0)) % e.rank(x)
    stored = e.literal(np.asarray(order.index(axis), np.int32), f"{x}_axis")
    source, sizes = e.read(x, order), o.attrs.get("split")
    if sizes is None:
        sizes = e.constant(o.inputs[1] if len(o.inputs) > 1 else None)
    count, length = len(o.outputs), e.shape(x)[axis]
    if sizes is None:
        size = -(-length // count)
        sizes = [min(size, length - at) for at in range(0, length, size)]
    sizes = [int(s) for s in np.ravel(sizes)]
    outputs = [
        e.write(name, order)
        if name in e.measured.shapes
        else _add_unread_part(e, x, order, axis, sizes[i])
        for i, name in enumerate(o.outputs)
    ]
    if len(set(sizes)) == 1:
        e.op("SPLIT", [stored, source], outputs, "SplitOptions", numSplits=count)
        return
    amounts = e.integers(sizes, f"{x}_sizes")
    e.op("SPLIT_V", [source, amounts, stored], outputs, "SplitVOptions", numSplits=count)


def _add_unread_part(e: Emitter, x: str, order: Order, axis: int, size: int) -> int:
    shape = [*e.shape(x)]
    shape[axis] = size
    return e.temporary(f"{x}_part", permute_shape(shape, order), e.dtype(x), e.params(x))


def write_slice_axes(e: Emitter, o: Operation) -> None:
    """SLICE, or STRIDED_SLICE where a step is not 1."""
    x, y = str(o.inputs[0]), o.outputs[0]
    rank, shape = e.rank(x), e.shape(x)
    operands = []
    for position, name in enumerate(("starts", "ends", "axes", "steps"), 1):
        given = o.attrs.get(name)
        if given is None:
            given = e.constant(o.inputs[position] if len(o.inputs) > position else None)
        operands.append(None if given is None else [int(v) for v in np.ravel(given)])
    starts, ends, axes, steps = operands
    if starts is None or ends is None:
        raise UnsupportedError(f"Slice {o.name} computes its bounds; LiteRT needs constants here")
    axes = [a % rank for a in axes] if axes is not None else list(range(len(starts)))
    steps = steps if steps is not None else [1] * len(starts)
    spans = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        spans[axis] = make_slice(start, end, step, shape[axis])
    order = e.order(x) or order_naturally(rank)
    grows = [i for i, length in enumerate(e.signature(x)) if length == -1]
    if any(spans[axis] != slice(None) for axis in grows):
        raise DependsOnBatchError(f"Slice {o.name} takes a part of the batch")
    ranges = [range(*span.indices(length)) for span, length in zip(spans, shape, strict=True)]
    source, result = e.read(x, order), e.write(y, order)
    if all(r.step == 1 for r in ranges):
        begin = permute_shape([r.start for r in ranges], order)
        size = permute_shape([-1 if i in grows else len(r) for i, r in enumerate(ranges)], order)
        inputs = [source, e.integers(begin, f"{y}_begin"), e.integers(size, f"{y}_size")]
        e.op("SLICE", inputs, [result], "SliceOptions")
        return
    stops = [_stop(r, length) for r, length in zip(ranges, shape, strict=True)]
    bounds = [
        permute_shape(values, order)
        for values in ([r.start for r in ranges], stops, [r.step for r in ranges])
    ]
    mask = sum(1 << order.index(axis) for axis in grows)
    inputs = [source, *(e.integers(b, f"{y}_bounds") for b in bounds)]
    e.op(
        "STRIDED_SLICE", inputs, [result], "StridedSliceOptions", beginMask=mask, endMask=mask,
        ellipsisMask=0, newAxisMask=0, shrinkAxisMask=0,
    )  # fmt: skip


def _stop(positions: range, length: int) -> int:
    """The end of a range; one before the first element is −length − 1, since −1 is the last one."""
    return positions.stop if positions.stop >= 0 else -length - 1


def write_gather(e: Emitter, o: Operation) -> None:
    """GATHER; positions from the end become positions from the start. A table of float64 is stored as float32."""
    x, indices, y = str(o.inputs[0]), str(o.inputs[1]), o.outputs[0]
    axis = int(o.attrs.get("axis", 0)) % e.rank(x)
    order = e.order(x) or order_naturally(e.rank(x))
    array = e.constant(indices)
    rank = e.rank(indices)
    if rank > 1:
        order = order_naturally(e.rank(x))
    length = e.shape(x)[axis]
    if array is not None:
        wrapped = np.where(array < 0, array + length, array).astype(np.int32)
        positions = e.literal(wrapped, f"{indices}_positions")
    else:
        positions = e.read(indices, order_naturally(rank))
        if can_be_negative(e, indices):
            positions = _count_from_start(e, indices, positions, length)
    if rank == 1:
        target = order
    elif rank == 0:
        target = tuple(a - (a > axis) for a in order if a != axis)
    else:
        target = order_naturally(e.rank(y))
    is_double = e.constant(x) is not None and e.dtype(x) == np.float64
    source = e.read(x, order, dtype=np.dtype(np.float32) if is_double else e.dtype(x))
    result = _add_narrow_result(e, y, target) if is_double else e.write(y, target)
    e.op(
        "GATHER", [source, positions], [result], "GatherOptions", axis=order.index(axis),
        batchDims=0,
    )  # fmt: skip
    if is_double:
        e.op("CAST", [result], [e.write(y, target)], "CastOptions")


def _add_narrow_result(e: Emitter, name: str, order: Order) -> int:
    """A new tensor of float32 like a value of float64."""
    shape, signature = (permute_shape(of(name), order) for of in (e.shape, e.signature))
    return e.temporary(f"{name}_narrow", shape, np.dtype(np.float32), signature=signature)


def _count_from_start(e: Emitter, name: str, positions: int, length: int) -> int:
    """Positions of which the negative ones count from the end, as positions from the start: LESS, ADD, SELECT_V2."""
    dtype = e.dtype(name)
    below, moved, wrapped = (
        e.temporary(f"{name}_{what}", e.shape(name), kind, signature=e.signature(name))
        for what, kind in (("below", np.dtype(bool)), ("moved", dtype), ("wrapped", dtype))
    )
    zero, size = (e.literal(np.asarray(n, dtype), f"{name}_limit") for n in (0, length))
    e.op("LESS", [positions, zero], [below], "LessOptions")
    e.op("ADD", [positions, size], [moved], "AddOptions", fusedActivationFunction=0)
    e.op("SELECT_V2", [below, moved, positions], [wrapped], "SelectV2Options")
    return wrapped


def write_expand(e: Emitter, o: Operation) -> None:
    """BROADCAST_TO."""
    x, y = str(o.inputs[0]), o.outputs[0]
    _refuse_open_batch(e, o)
    order = (e.order(x) if e.rank(x) == e.rank(y) else None) or order_naturally(e.rank(y))
    shape = e.integers(permute_shape(e.shape(y), order), f"{y}_shape")
    source = e.read(x, order, rank=e.rank(y))
    e.op("BROADCAST_TO", [source, shape], [e.write(y, order)])


def write_tile(e: Emitter, o: Operation) -> None:
    """TILE."""
    x, y = str(o.inputs[0]), o.outputs[0]
    order = e.order(x) or order_naturally(e.rank(x))
    repeats = [n // m for n, m in zip(e.shape(y), e.shape(x), strict=True)]
    amounts = e.integers(permute_shape(repeats, order), f"{y}_repeats")
    e.op("TILE", [e.read(x, order), amounts], [e.write(y, order)])


def _refuse_open_batch(e: Emitter, o: Operation) -> None:
    if -1 in e.signature(o.outputs[0]):
        raise DependsOnBatchError(f"{o.op} {o.name} states the batch of its output")
