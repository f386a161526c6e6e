"""LiteRT's convolutions, products, pools and resizing as ONNX nodes; weights go back to ONNX's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.core.same_padding import compute_same_pads
from ptq.model.tflite.graph_builder import GraphBuilder
from ptq.model.tflite.parsed import ParsedOperator
from ptq.model.tflite.schema import load_schema

Row = Callable[[GraphBuilder, ParsedOperator], None]


def _get_enum_name(enumeration: str, number: int) -> str:
    values = vars(getattr(load_schema(), enumeration))
    return str(next(name for name, value in values.items() if value == number))


def get_activation(o: ParsedOperator) -> str:
    """Name of the fused activation."""
    number = getattr(o.options, "fusedActivationFunction", 0)
    return _get_enum_name("ActivationFunctionType", number)


def _read_window(b: GraphBuilder, o: ParsedOperator, kernel: Sequence[int]) -> dict[str, Any]:
    """Strides, padding and dilations. Pads of a dilated window are explicit: runtimes read auto_pad differently.

    Raises:
        UnsupportedError: The pads of a dilated window depend on the size of the image, which is open.
    """
    padding = _get_enum_name("Padding", o.options.padding)
    strides = [o.options.strideH, o.options.strideW]
    found: dict[str, Any] = {"strides": strides}
    dilations = [getattr(o.options, f"dilation{axis}Factor", 1) for axis in "HW"]
    if dilations == [1, 1]:
        return {**found, "auto_pad": "SAME_UPPER" if padding == "SAME" else "VALID"}
    found["dilations"] = dilations
    if padding == "SAME":
        name, sizes = b.tensor(o.inputs[0]).name, b.tensor(o.inputs[0]).signature[1:3]
        windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = [_compute_pads(name, *axis) for axis in zip(sizes, windows, strides, strict=True)]
        found["pads"] = [*(begin for begin, _ in pads), *(end for _, end in pads)]
    return found


def _compute_pads(image: str, size: int, window: int, stride: int) -> tuple[int, int]:
    """Elements that SAME adds before and behind one axis; with stride 1 the same for every size."""
    if size == -1 and stride != 1:
        raise UnsupportedError(
            f"a dilated window with strides reads {image}, whose size is open; fix the size of the input"
        )
    return compute_same_pads(size, window, stride)


def _read_bias(b: GraphBuilder, o: ParsedOperator, at: int, activation: int) -> list[str]:
    """The bias at a position of the inputs, if there is one.

    Raises:
        UnsupportedError: It has 32 bits beside an activation of 16: LiteRT rounds such a product by another rule.
    """
    if len(o.inputs) <= at or o.inputs[at] < 0:
        return []
    number = o.inputs[at]
    bias = b.tensor(number)
    if b.tensor(activation).dtype == np.int16 and bias.dtype != np.int64:
        raise UnsupportedError(
            f"bias {bias.name} of {o.builtin} on int16 is {bias.dtype}; only int64 is read there"
        )
    return [b.read_weight(number, b.constant_of(number), 0)]


def read_conv(b: GraphBuilder, o: ParsedOperator) -> None:
    """CONV_2D and DEPTHWISE_CONV_2D as Conv."""
    array, depthwise = b.constant_of(o.inputs[1]), o.builtin == "DEPTHWISE_CONV_2D"
    weight = array.transpose(3, 0, 1, 2) if depthwise else array.transpose(0, 3, 1, 2)
    channels = b.tensor(o.inputs[0]).signature[-1]
    inputs = [b.read_image(o.inputs[0]), b.read_weight(o.inputs[1], weight, 0)]
    inputs += _read_bias(b, o, 2, o.inputs[0])
    group = channels // weight.shape[1]
    y = b.add(
        "Conv",
        inputs,
        kernel_shape=weight.shape[2:],
        group=group,
        **_read_window(b, o, weight.shape[2:]),
    )
    b.write_image(o.outputs[0], b.activate(o.outputs[0], y, get_activation(o)))


def read_conv_transpose(b: GraphBuilder, o: ParsedOperator) -> None:
    """TRANSPOSE_CONV as ConvTranspose, with the padding that follows from its shapes."""
    shape = [int(n) for n in b.constant_of(o.inputs[0])]
    weight = b.constant_of(o.inputs[1]).transpose(3, 0, 1, 2)
    strides, image = [o.options.strideH, o.options.strideW], b.tensor(o.inputs[2]).signature[1:3]
    surplus = [
        (size - 1) * s + k - out
        for size, s, k, out in zip(image, strides, weight.shape[2:], shape[1:3], strict=True)
    ]
    begins = [max(s, 0) // 2 for s in surplus]
    ends = [max(s, 0) - p for s, p in zip(surplus, begins, strict=True)]
    inputs = [b.read_image(o.inputs[2]), b.read_weight(o.inputs[1], weight, 1)]
    inputs += _read_bias(b, o, 3, o.inputs[2])
    # nothing is cut off with VALID; LiteRT's default kernels read which of the two a file has
    is_valid = _get_enum_name("Padding", o.options.padding) == "VALID"
    padding: dict[str, Any] = {"auto_pad": "VALID"} if is_valid else {"pads": [*begins, *ends]}
    y = b.add(
        "ConvTranspose", inputs, kernel_shape=weight.shape[2:], strides=strides,
        output_padding=[max(-s, 0) for s in surplus], **padding,
    )  # fmt: skip
    b.write_image(o.outputs[0], b.activate(o.outputs[0], y, get_activation(o)))


def read_fully_connected(b: GraphBuilder, o: ParsedOperator) -> None:
    """FULLY_CONNECTED as Gemm on rows, or MatMul where it keeps several axes without a bias.

    Raises:
        UnsupportedError: Several axes of its output are open.
    """
    weight, x = b.constant_of(o.inputs[1]), o.inputs[0]
    source, rank = b.read(x), len(b.tensor(x).signature)
    bias = _read_bias(b, o, 2, x)
    if rank > 2 and not bias and o.options.keepNumDims:
        y = b.add("MatMul", [source, b.read_weight(o.inputs[1], weight.T, 1)])
        b.write(o.outputs[0], b.activate(o.outputs[0], y, get_activation(o)))
        return
    if rank != 2:
        source = b.reshape(x, source, (-1, weight.shape[1]))
    inputs = [source, b.read_weight(o.inputs[1], weight, 0), *bias]
    result, shape = o.outputs[0], b.tensor(o.outputs[0]).signature
    y = b.activate(result, b.add("Gemm", inputs, transB=1), get_activation(o))
    b.write(result, y if len(shape) == 2 else b.reshape(result, y, shape))


def read_pool(op: str) -> Row:
    """The row of a pool."""

    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        kernel = [o.options.filterHeight, o.options.filterWidth]
        y = b.add(
            op, [b.read_image(o.inputs[0])], kernel_shape=kernel, **_read_window(b, o, kernel)
        )
        b.write_image(o.outputs[0], b.activate(o.outputs[0], y, get_activation(o)))

    return row


def read_regrouping(op: str) -> Row:
    """The row of a regrouping of channels and positions."""

    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        y = b.add(op, [b.read_image(o.inputs[0])], blocksize=o.options.blockSize)
        b.write_image(o.outputs[0], y)

    return row


def read_resize(b: GraphBuilder, o: ParsedOperator) -> None:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR as Resize.

    Raises:
        UnsupportedError: It has both options for the positions of pixels.
    """
    height, width = (int(n) for n in b.constant_of(o.inputs[1]))
    linear = o.builtin == "RESIZE_BILINEAR"
    if o.options.alignCorners and o.options.halfPixelCenters:
        name = b.tensor(o.outputs[0]).name
        raise UnsupportedError(
            f"{o.builtin} (tensor {name}) has align_corners and half_pixel_centers, which is not read"
        )
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if o.options.alignCorners:
        how = {
            "coordinate_transformation_mode": "align_corners",
            "nearest_mode": "round_prefer_ceil",
        }
    elif o.options.halfPixelCenters:
        how = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    image, batch, channels = b.read_image(o.inputs[0]), *b.tensor(o.inputs[0]).signature[::3]
    # sizes of all axes: with the attribute axes, ONNX Runtime's optimizer breaks a Resize beside a Transpose
    if batch == -1:
        rest = b.literal(np.array([channels, height, width], np.int64))
        sizes = b.add_helper("Shape", [image], start=0, end=1)
        sizes = b.add_helper("Concat", [sizes, rest], axis=0)
    else:
        sizes = b.literal(np.array([batch, channels, height, width], np.int64))
    y = b.add("Resize", [image, "", "", sizes], mode="linear" if linear else "nearest", **how)
    b.write_image(o.outputs[0], y)
