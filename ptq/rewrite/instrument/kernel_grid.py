"""A standard grid of kernels: the operators of common networks, in the shapes that these have at 224 × 224 pixels.

Attributes are written as exporters of PyTorch write them, so that the keys of the kernels are those of such models.
Sources of the shapes: ResNet-50, MobileNetV2 and V3, EfficientNet, ResNeXt, BERT and DistilBERT, MiniLM, ViT.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
import onnx
from numpy.typing import NDArray

from ptq.model.graph import Graph

_POINTWISE = (
    (24, 144, 56), (64, 256, 56), (256, 64, 56), (144, 24, 56), (32, 192, 28), (192, 32, 28),
    (512, 128, 28), (128, 512, 28), (64, 384, 14), (384, 64, 14), (96, 576, 14), (1024, 256, 14),
    (320, 1280, 7), (512, 2048, 7), (2048, 512, 7), (16, 96, 112),
)  # fmt: skip
"""Channels before and after, and pixels of a side."""
_DENSE = (
    (64, 64, 56, 3, 1), (128, 128, 28, 3, 1), (256, 256, 14, 3, 1), (512, 512, 7, 3, 1),
    (3, 32, 224, 3, 2), (3, 64, 224, 7, 2), (128, 128, 56, 3, 2), (32, 32, 56, 3, 1),
)  # fmt: skip
"""Channels before and after, pixels of a side before, kernel and stride."""
_DEPTHWISE = (
    (144, 56, 3, 1), (192, 28, 3, 1), (384, 14, 3, 1), (576, 14, 3, 1), (960, 7, 3, 1),
    (32, 112, 3, 1), (96, 112, 3, 2), (240, 28, 5, 1), (672, 14, 5, 1),
)  # fmt: skip
"""Channels, pixels of a side before, kernel and stride."""
_GROUPED = ((128, 56), (256, 28), (512, 14))
"""Channels in 32 groups, and pixels of a side."""
_PRODUCTS = (
    (128, 256, 256), (128, 384, 384), (128, 384, 1536), (128, 1536, 384), (128, 768, 768),
    (128, 768, 3072), (128, 3072, 768), (197, 384, 1152),
)  # fmt: skip
"""Rows, and columns before and after."""
_LAST_LAYERS = ((512, 1000), (1280, 1000), (2048, 1000))
_ELEMENTWISE = ((64, 56), (256, 28), (384, 14), (1280, 7))
"""Channels, and pixels of a side."""
_UNARY = ("Relu", "Sigmoid", "HardSwish", "LeakyRelu")
_POOLED = ((64, 112), (192, 56), (512, 14))
Weights = dict[str, NDArray[np.float32]]


def build_kernel_grid() -> list[Graph]:
    """One graph for each kernel; the kinds alternate, so that the first ones are of all kinds."""
    kinds = (
        [_build_conv(before, after, side, 1, 1, 1) for before, after, side in _POINTWISE],
        [_build_conv(*row, 1) for row in _DENSE],
        [_build_conv(n, n, side, kernel, stride, n) for n, side, kernel, stride in _DEPTHWISE],
        [_build_conv(n, n, side, 3, 1, 32) for n, side in _GROUPED],
        [_build_matmul(*row) for row in _PRODUCTS],
        [_build_gemm(*row) for row in _LAST_LAYERS],
        [_build_binary("Add", *row) for row in _ELEMENTWISE],
        [_build_binary("Mul", *row) for row in _ELEMENTWISE],
        *([_build_unary(op, *row) for row in _ELEMENTWISE] for op in _UNARY),
        [_build_pool("MaxPool", *row) for row in _POOLED],
        [_build_global_pool(*row) for row in _ELEMENTWISE],
    )
    return [graph for row in zip_longest(*kinds) for graph in row if graph is not None]


def _build_conv(before: int, after: int, side: int, kernel: int, stride: int, groups: int) -> Graph:
    pad, end = kernel // 2, -(-side // stride)
    attributes = (
        f"<dilations = [1, 1], group = {groups}, kernel_shape = [{kernel}, {kernel}], "
        f"pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}]>"
    )
    weights = _draw(w=(after, before // groups, kernel, kernel), b=(after,))
    shapes = (1, before, side, side), (1, after, end, end)
    return _build(f"y = Conv{attributes}(x, w, b)", *shapes, weights)


def _build_matmul(rows: int, before: int, after: int) -> Graph:
    shapes = (1, rows, before), (1, rows, after)
    return _build("y = MatMul(x, w)", *shapes, _draw(w=(before, after)))


def _build_gemm(before: int, after: int) -> Graph:
    weights = _draw(w=(after, before), b=(after,))
    return _build("y = Gemm<transB = 1>(x, w, b)", (1, before), (1, after), weights)


def _build_binary(op: str, channels: int, side: int) -> Graph:
    shape = (1, channels, side, side)
    return _build(f"y = {op}(x, z)", shape, shape, {}, second=True)


def _build_unary(op: str, channels: int, side: int) -> Graph:
    shape = (1, channels, side, side)
    return _build(f"y = {op}(x)", shape, shape, {})


def _build_pool(op: str, channels: int, side: int) -> Graph:
    attributes = "<ceil_mode = 0, kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]>"
    shapes = (1, channels, side, side), (1, channels, side // 2, side // 2)
    return _build(f"y = {op}{attributes}(x)", *shapes, {})


def _build_global_pool(channels: int, side: int) -> Graph:
    return _build("y = GlobalAveragePool(x)", (1, channels, side, side), (1, channels, 1, 1), {})


def _draw(**shapes: tuple[int, ...]) -> Weights:
    """Weights whose values do not matter for the time."""
    rng = np.random.default_rng(0)
    return {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def _build(
    node: str,
    before: tuple[int, ...],
    after: tuple[int, ...],
    weights: Weights,
    *,
    second: bool = False,
) -> Graph:
    inputs = [f"float{list(before)} {name}" for name in ("x", "z")[: 1 + second]]
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> kernel ({", ".join(inputs)}) => '
        f"(float{list(after)} y) {{ {node} }}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(w, n) for n, w in weights.items())
    return Graph.from_proto(model)
