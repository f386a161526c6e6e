"""One operator of LiteRT's 8-bit specification each, as a quantized ONNX model: what ONNX can say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto
from qdq_builder import QdqBuilder

from ptq.model.graph import Graph
from ptq.model.node import get_name

Build = Callable[[QdqBuilder], str]
IMAGE, ROWS = ["N", 6, 9, 8], ["N", 5, 12]
FIXED = (1 / 256, -128)


def feeds_of(graph: Graph, batch: int, spread: float = 2.0) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    feed = {}
    for value in graph.inputs:
        shape = [d if isinstance(d, int) else batch for d in value.shape]
        if value.dtype.numpy() == np.bool_:
            feed[get_name(value)] = rng.random(shape) > 0.5
        else:
            feed[get_name(value)] = rng.normal(0, spread, shape).astype(np.float32)
    return feed


def conv(b: QdqBuilder, *, group: int = 1, kernel: int = 3, out: int = 4, **attrs: Any) -> str:
    x = b.input(IMAGE)
    w = b.weight(out, 6 // group, kernel, kernel)
    attrs.setdefault("pads", [0, 0, 0, 0])
    y = b.node("Conv", x, w, b.bias(0.05, w, out), group=group, kernel_shape=[kernel] * 2, **attrs)
    return b.requantize(y, 0.4, 3)


def one(op: str, shape: Any = IMAGE, scale: Any = None, /, **attrs: Any) -> Build:
    """An operator of one activation; ``scale`` None keeps the input's."""

    def build(b: QdqBuilder) -> str:
        return b.requantize(b.node(op, b.input(shape), **attrs), *(scale or (0.05, -3)))

    return build


def with_constants(op: str, shape: Any, *constants: Any, **attrs: Any) -> Build:
    """An operator of one activation and constants, which keeps the scale."""

    def build(b: QdqBuilder) -> str:
        x = b.input(shape)
        names = ["" if c is None else b.constant(c) for c in constants]
        return b.requantize(b.node(op, x, *names, **attrs), 0.05, -3)

    return build


def two(
    op: str, shape: Any = IMAGE, other: Any = IMAGE, scale: Any = (0.09, 4), **attrs: Any
) -> Build:
    """An operator of two activations of different scales."""

    def build(b: QdqBuilder) -> str:
        x, y = b.input(shape), b.input(other, 0.08, 11)
        return b.requantize(b.node(op, x, y, **attrs), *scale)

    return build


def same(op: str, other: Any = IMAGE, count: int = 2, **attrs: Any) -> Build:
    """An operator of several activations of one scale."""

    def build(b: QdqBuilder) -> str:
        xs = [b.input(IMAGE), *(b.input(other) for _ in range(count - 1))]
        return b.requantize(b.node(op, *xs, **attrs), 0.05, -3)

    return build


def compare(op: str) -> Build:
    return lambda b: b.node("Cast", b.node(op, b.input(ROWS, 0.5), b.input(ROWS, 0.5, -2)), to=1)


def gemm(b: QdqBuilder) -> str:
    w = b.weight(7, 12)
    y = b.node("Gemm", b.input(["N", 12]), w, b.bias(0.05, w, 7), transB=1)
    return b.requantize(y, 0.3, -8)


def matmul(b: QdqBuilder) -> str:
    return b.requantize(b.node("MatMul", b.input(ROWS), b.weight(12, 7, axis=1)), 0.3, -8)


def matmul_of_activations(b: QdqBuilder, zero_point: int = 11) -> str:
    y = b.node("MatMul", b.input(["N", 3, 5, 12]), b.input(["N", 3, 12, 4], 0.08, zero_point))
    return b.requantize(y, 0.4, 2)


def conv_transpose(**attrs: Any) -> Build:
    def build(b: QdqBuilder) -> str:
        w = b.weight(6, 4, 3, 3, axis=1)
        y = b.node(
            "ConvTranspose", b.input([1, 6, 5, 4]), w, b.bias(0.05, w, 4), kernel_shape=[3, 3],
            strides=[2, 2], **attrs,
        )  # fmt: skip
        return b.requantize(y, 0.4, 2)

    return build


def prelu(b: QdqBuilder) -> str:
    slope = b.integers(np.arange(-20, 40, 10).astype(np.int8).reshape(6, 1, 1))
    return b.requantize(b.node("PRelu", b.input(IMAGE), slope), 0.06, 2)


def quotient(b: QdqBuilder) -> str:
    """A Div by integers that are not zero: LiteRT refuses a divisor of zero."""
    divisor = b.integers(np.array([90, 40, 120, 64, 100, 33], np.int8).reshape(6, 1, 1))
    return b.requantize(b.node("Div", b.input(IMAGE), divisor), 0.04, 3)


def select(b: QdqBuilder) -> str:
    condition = b.real_input(["N", 6, 9, 8], TensorProto.BOOL)
    return b.requantize(b.node("Where", condition, b.input(IMAGE), b.input(IMAGE)), 0.05, -3)


def split(b: QdqBuilder) -> str:
    parts = b.node("Split", b.input(IMAGE), outputs=2, axis=1, num_outputs=2)
    first, second = (b.requantize(p, 0.05, -3) for p in parts)
    return b.requantize(b.node("Add", first, second), 0.09, 4)


def uneven_split(b: QdqBuilder) -> str:
    sizes = b.constant(np.array([1, 3, 2], np.int64))
    parts = b.node("Split", b.input(IMAGE), sizes, outputs=3, axis=1)
    first, _, third = (b.requantize(p, 0.05, -3) for p in parts)
    return b.requantize(b.node("Add", first, third), 0.09, 4)


def argument(op: str) -> Build:
    return lambda b: b.node("Cast", b.node(op, b.input(ROWS), axis=1, keepdims=1), to=1)


def positive(op: str, scale: tuple[float, int]) -> Build:
    def build(b: QdqBuilder) -> str:
        return b.requantize(b.node(op, b.input(ROWS, 0.05, -128)), *scale)

    return build


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def graph_of(case: str, *, wide: bool = False) -> Graph:
    """The model of a case; ``wide`` with activations of 16 bits."""
    b = QdqBuilder(wide=wide)
    b.output(CASES[case][1](b))
    return b.to_graph()


CASES: dict[str, tuple[str, Build]] = {
    "Conv": ("CONV_2D", conv),
    "Conv, padding SAME": ("CONV_2D", lambda b: conv(b, pads=[1, 1, 1, 1])),
    "Conv, padding of its own": ("CONV_2D PAD", lambda b: conv(b, pads=[1, 1, 1, 1], strides=[2, 2])),
    "Conv, dilated": ("CONV_2D", lambda b: conv(b, dilations=[2, 2])),
    "Conv, groups": ("CONV_2D", lambda b: conv(b, group=2)),
    "Conv, depthwise": ("DEPTHWISE_CONV_2D", lambda b: conv(b, group=6, out=12)),
    "ConvTranspose": ("TRANSPOSE_CONV", conv_transpose(pads=[0, 0, 1, 1])),
    "ConvTranspose, cut on both sides": (
        "SLICE TRANSPOSE_CONV", conv_transpose(pads=[1, 1, 1, 1], output_padding=[1, 1]),
    ),
    "ConvTranspose, same size, larger half first": (
        "SLICE TRANSPOSE_CONV", conv_transpose(auto_pad="SAME_LOWER"),
    ),
    "ConvTranspose to a size": ("SLICE TRANSPOSE_CONV", conv_transpose(output_shape=[10, 8])),
    "Gemm": ("FULLY_CONNECTED", gemm),
    "MatMul by a constant": ("FULLY_CONNECTED", matmul),
    "MatMul of activations": ("BATCH_MATMUL", matmul_of_activations),
    "MatMul of activations, zero point 0": ("BATCH_MATMUL", lambda b: matmul_of_activations(b, 0)),
    "Add": ("ADD", two("Add")),
    "Add, broadcast": ("ADD", two("Add", IMAGE, ["N", 6, 1, 1])),
    "Sub": ("SUB", two("Sub")),
    "Mul": ("MUL", two("Mul", scale=(0.3, 4))),
    "Div": ("DIV", quotient),
    "Relu": ("RELU", one("Relu", IMAGE, (0.03, -128))),
    "Clip as RELU6": ("RELU6", with_constants("Clip", IMAGE, np.float32(0), np.float32(6))),
    "Clip as RELU_N1_TO_1": ("RELU_N1_TO_1", with_constants("Clip", IMAGE, np.float32(-1), np.float32(1))),
    "Clip, other bounds": ("MAXIMUM MINIMUM", with_constants("Clip", IMAGE, np.float32(-0.7), np.float32(2))),
    "LeakyRelu": ("LEAKY_RELU", one("LeakyRelu", IMAGE, (0.04, 3), alpha=0.2)),
    "PRelu": ("PRELU", prelu),
    "HardSwish": ("HARD_SWISH", one("HardSwish", IMAGE, (0.04, -100))),
    "Sigmoid": ("LOGISTIC", one("Sigmoid", IMAGE, FIXED)),
    "Tanh": ("TANH", one("Tanh", IMAGE, (1 / 128, 0))),
    "Abs": ("ABS", one("Abs", IMAGE, (0.04, -128))),
    "Elu": ("ADD CAST GATHER", one("Elu", IMAGE, (0.04, -100))),
    "Exp": ("EXP", one("Exp", IMAGE, (0.1, -128))),
    "Gelu": ("GELU", one("Gelu", IMAGE, (0.04, -100))),
    "Gelu by tanh": ("GELU", one("Gelu", IMAGE, (0.04, -100), approximate="tanh")),
    "Log": ("LOG", positive("Log", (0.03, 20))),
    "Sqrt": ("SQRT", positive("Sqrt", (0.01, -128))),
    "Softmax": ("SOFTMAX", one("Softmax", ROWS, FIXED)),
    "LogSoftmax": ("LOG_SOFTMAX", one("LogSoftmax", ROWS, (1 / 16, 127))),
    "LpNormalization": ("L2_NORMALIZATION", one("LpNormalization", ROWS, (1 / 128, 0))),
    "AveragePool": ("AVERAGE_POOL_2D", one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])),
    "MaxPool": ("MAX_POOL_2D", one("MaxPool", kernel_shape=[2, 2], strides=[2, 2])),
    "MaxPool, padding of its own": (
        "MAX_POOL_2D PADV2",
        one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    ),
    "GlobalAveragePool": ("MEAN", one("GlobalAveragePool", IMAGE, (0.02, 3))),
    "GlobalMaxPool": ("REDUCE_MAX", one("GlobalMaxPool")),
    "ReduceMean": ("MEAN", lambda b: b.requantize(
        b.node("ReduceMean", b.input(ROWS), b.constant(ints(2)), keepdims=0), 0.02, 3)),
    "ReduceMax": ("REDUCE_MAX", with_constants("ReduceMax", IMAGE, ints(1), keepdims=0)),
    "ReduceMin": ("REDUCE_MIN", with_constants("ReduceMin", IMAGE, ints(2, 3))),
    "Concat": ("CONCATENATION", same("Concat", count=3, axis=1)),
    "Max": ("MAXIMUM", same("Max", ["N", 1, 9, 8], count=3)),
    "Min": ("MINIMUM", same("Min")),
    "Where": ("SELECT_V2", select),
    "Pad": ("PAD", with_constants("Pad", IMAGE, ints(0, 0, 1, 2, 0, 1, 0, 3))),
    "Pad with a value": ("PADV2", with_constants("Pad", IMAGE, ints(0, 0, 1, 2, 0, 1, 0, 3), np.float32(1.5))),
    "Pad by reflection": ("MIRROR_PAD", with_constants(
        "Pad", IMAGE, ints(0, 0, 1, 2, 0, 0, 1, 3), mode="reflect")),
    "Reshape": ("RESHAPE", with_constants("Reshape", ROWS, ints(-1, 60))),
    "Flatten": ("RESHAPE", one("Flatten", ROWS)),
    "Squeeze": ("RESHAPE", with_constants("Squeeze", ["N", 1, 7], ints(1))),
    "Unsqueeze": ("RESHAPE", with_constants("Unsqueeze", ["N", 7], ints(1))),
    "Transpose": ("TRANSPOSE", one("Transpose", ["N", 2, 3, 4], perm=[0, 2, 1, 3])),
    "Gather": ("GATHER", with_constants("Gather", IMAGE, ints(3, 0, -1), axis=1)),
    "Gather of one": ("GATHER", with_constants("Gather", IMAGE, np.int64(2), axis=2)),
    "Slice": ("SLICE", with_constants("Slice", IMAGE, ints(1, 2), ints(4, 9), ints(1, 2))),
    "Slice with steps": ("STRIDED_SLICE", with_constants(
        "Slice", IMAGE, ints(5, 0), ints(-100, 9), ints(1, 2), ints(-2, 3))),
    "Expand": ("BROADCAST_TO", with_constants("Expand", [1, 1, 7], ints(1, 3, 7))),
    "Tile": ("TILE", with_constants("Tile", ["N", 3, 4], ints(1, 2, 3))),
    "Split": ("ADD SPLIT", split),
    "Split into other sizes": ("ADD SPLIT_V", uneven_split),
    "DepthToSpace": ("DEPTH_TO_SPACE", one("DepthToSpace", ["N", 8, 3, 5], blocksize=2)),
    "DepthToSpace by columns": ("DEPTH_TO_SPACE GATHER", one(
        "DepthToSpace", ["N", 8, 3, 5], blocksize=2, mode="CRD")),
    "SpaceToDepth": ("SPACE_TO_DEPTH", one("SpaceToDepth", ["N", 3, 4, 6], blocksize=2)),
    "Resize nearest": ("RESIZE_NEAREST_NEIGHBOR", with_constants(
        "Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32),
        coordinate_transformation_mode="asymmetric", nearest_mode="floor")),
    "Resize linear": ("RESIZE_BILINEAR", with_constants(
        "Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32), mode="linear")),
    "ArgMax": ("ARG_MAX CAST RESHAPE", argument("ArgMax")),
    "ArgMin": ("ARG_MIN CAST RESHAPE", argument("ArgMin")),
    "Equal": ("CAST EQUAL", compare("Equal")),
    "Greater": ("CAST GREATER", compare("Greater")),
    "GreaterOrEqual": ("CAST GREATER_EQUAL", compare("GreaterOrEqual")),
    "Less": ("CAST LESS", compare("Less")),
    "LessOrEqual": ("CAST LESS_EQUAL", compare("LessOrEqual")),
    "requantization": ("QUANTIZE", lambda b: b.requantize(b.input(ROWS), 0.11, 9)),
    "a function as a table": ("ADD CAST GATHER", one("Softplus", IMAGE, (0.04, -128))),
    "HardSigmoid as a table": ("ADD CAST GATHER", one("HardSigmoid", IMAGE, FIXED)),
}  # fmt: skip
"""The builtin operators that the file of a case has, and what builds its model."""
