"""LiteRT's operators that move elements, as ONNX nodes."""

from __future__ import annotations

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.model.tflite.graph_builder import GraphBuilder
from ptq.model.tflite.parsed import ParsedOperator
from ptq.model.tflite.schema import load_schema


def read_reshape(b: GraphBuilder, o: ParsedOperator) -> None:
    """RESHAPE; its shape is an input, or an option in files of old converters."""
    given = b.constant_of(o.inputs[1]) if len(o.inputs) > 1 else o.options.newShape
    shape = b.literal(np.asarray(given, np.int64))
    b.write(o.outputs[0], b.add("Reshape", [b.read(o.inputs[0]), shape]))


def read_pad(b: GraphBuilder, o: ParsedOperator) -> None:
    """PAD, PADV2 and MIRROR_PAD."""
    if o.builtin == "MIRROR_PAD" and o.options.mode == load_schema().MirrorPadMode.SYMMETRIC:
        _mirror_with_edges(b, o)
        return
    pads = b.literal(b.constant_of(o.inputs[1]).T.reshape(-1).astype(np.int64))
    inputs, attrs = [b.read(o.inputs[0]), pads], {}
    if o.builtin == "PADV2":
        content, params = b.constant_of(o.inputs[2]), b.tensor(o.inputs[2]).params
        real = content if params is None else params.dequantize(content)
        inputs.append(b.literal(np.float32(real.reshape(()))))
    if o.builtin == "MIRROR_PAD":
        attrs["mode"] = "reflect"
    b.write(o.outputs[0], b.add("Pad", inputs, **attrs))


def _mirror_with_edges(b: GraphBuilder, o: ParsedOperator) -> None:
    """The mode SYMMETRIC, which repeats the edges and which ONNX's Pad lacks: a Gather along each padded axis.

    Raises:
        UnsupportedError: The size of a padded axis is open.
    """
    x = b.tensor(o.inputs[0])
    value = b.read(o.inputs[0])
    for axis, (before, after) in enumerate(b.constant_of(o.inputs[1]).tolist()):
        if not before and not after:
            continue
        size = x.signature[axis]
        if size == -1:
            raise UnsupportedError(
                f"MIRROR_PAD repeats the edges of {x.name}, whose size is open; fix the size of the input"
            )
        there = np.arange(size)
        positions = np.concatenate([there[:before][::-1], there, there[size - after :][::-1]])
        value = b.requantize(o.inputs[0], value, "before_mirror")
        value = b.add("Gather", [value, b.literal(positions)], axis=axis)
    b.write(o.outputs[0], value)


def read_transpose(b: GraphBuilder, o: ParsedOperator) -> None:
    """TRANSPOSE."""
    perm = [int(p) for p in b.constant_of(o.inputs[1])]
    b.write(o.outputs[0], b.add("Transpose", [b.read(o.inputs[0])], perm=perm))


def read_gather(b: GraphBuilder, o: ParsedOperator) -> None:
    """GATHER, of integers where it reads a constant table."""
    if o.options.batchDims:
        _gather_in_batches(b, o)
        return
    source, positions, y = o.inputs[0], b.read(o.inputs[1]), o.outputs[0]
    content, tensor = b.tensor(source).content, b.tensor(y)
    if content is not None and tensor.params is not None:  # a table of integers
        table = b.literal(content, b.tensor(source).name)
        b.write_integers(y, "Gather", [table, positions], axis=o.options.axis)
        return
    b.write(y, b.add("Gather", [b.read(source), positions], axis=o.options.axis))


def _gather_in_batches(b: GraphBuilder, o: ParsedOperator) -> None:
    """A GATHER with positions of their own for each element of the leading axes, as GatherND.

    Raises:
        UnsupportedError: It reads along another axis than the one behind these.
    """
    source, positions = (b.tensor(i) for i in o.inputs[:2])
    count = o.options.batchDims % len(positions.signature)
    if o.options.axis % len(source.signature) != count:
        raise UnsupportedError(
            f"GATHER of {source.name} along axis {o.options.axis} with batch_dims {o.options.batchDims} is not read; "
            "only the axis behind the batch is"
        )
    each = b.add_helper("Unsqueeze", [b.read(o.inputs[1]), b.literal(np.array([-1]))])
    b.write(o.outputs[0], b.add("GatherND", [b.read(o.inputs[0]), each], batch_dims=count))


def read_slice(b: GraphBuilder, o: ParsedOperator) -> None:
    """SLICE."""
    begins, sizes = (b.constant_of(i).astype(np.int64) for i in o.inputs[1:3])
    ends = np.where(sizes == -1, np.iinfo(np.int64).max, begins + sizes)
    pair = [b.literal(begins), b.literal(ends)]
    b.write(o.outputs[0], b.add("Slice", [b.read(o.inputs[0]), *pair]))


def read_strided_slice(b: GraphBuilder, o: ParsedOperator) -> None:
    """STRIDED_SLICE.

    Raises:
        UnsupportedError: It adds axes, or removes one by a negative step.
    """
    options = o.options
    if options.ellipsisMask or options.newAxisMask:
        raise UnsupportedError("STRIDED_SLICE that adds axes is not read")
    begins, ends, steps = (b.constant_of(i).astype(np.int64) for i in o.inputs[1:4])
    removed = [axis for axis in range(len(steps)) if options.shrinkAxisMask >> axis & 1]
    if np.any(steps[removed] < 0):
        raise UnsupportedError("STRIDED_SLICE that removes an axis by a negative step is not read")
    limit = np.iinfo(np.int64).max
    for axis, step in enumerate(steps):
        if options.beginMask >> axis & 1:
            begins[axis] = 0 if step > 0 else limit
        if options.endMask >> axis & 1:
            ends[axis] = limit if step > 0 else -limit
    for axis in removed:  # one element, whatever end and step say
        ends[axis], steps[axis] = (begins[axis] + 1 if begins[axis] != -1 else limit), 1
    axes = b.literal(np.arange(len(steps)))
    inputs = [b.read(o.inputs[0]), b.literal(begins), b.literal(ends), axes, b.literal(steps)]
    y = b.add("Slice", inputs)
    b.write(o.outputs[0], b.squeeze(o.outputs[0], y, removed) if removed else y)


def read_split(b: GraphBuilder, o: ParsedOperator) -> None:
    """SPLIT and SPLIT_V."""
    is_equal = o.builtin == "SPLIT"
    source, at = (o.inputs[1], o.inputs[0]) if is_equal else (o.inputs[0], o.inputs[2])
    axis = int(np.reshape(b.constant_of(at), ()))
    sizes = [b.tensor(y).signature[axis] for y in o.outputs]
    names = [b.unique("part") for _ in o.outputs]
    lengths = b.literal(np.asarray(sizes, np.int64))
    b.add_split([b.read(source), lengths], names, axis)
    for y, name in zip(o.outputs, names, strict=True):
        b.write(y, name)


def read_unpack(b: GraphBuilder, o: ParsedOperator) -> None:
    """UNPACK."""
    names = [b.unique("part") for _ in o.outputs]
    axis = o.options.axis % len(b.tensor(o.inputs[0]).signature)
    lengths = b.literal(np.ones(len(names), np.int64))
    b.add_split([b.read(o.inputs[0]), lengths], names, axis)
    for y, name in zip(o.outputs, names, strict=True):
        b.write(y, b.squeeze(y, name, [axis]))


def read_concat(b: GraphBuilder, o: ParsedOperator) -> None:
    """CONCATENATION."""
    b.write(o.outputs[0], b.add("Concat", [b.read(i) for i in o.inputs], axis=o.options.axis))
