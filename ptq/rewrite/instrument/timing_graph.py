"""Graphs whose times calibrate all others: nothing, a crossing from float to integers, and changes of layout."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from ptq.model.graph import Graph

_HEADER = '<ir_version: 8, opset_import: ["" : 17]> g '


def build_empty_graph() -> Graph:
    """QuantizeLinear of one number: a call that computes nothing."""
    return _parse(
        "(float[1] x) => (uint8[1] y) <float s = {0.05}, uint8 z = {128}> "
        "{ y = QuantizeLinear(x, s, z) }"
    )


def build_crossing_graph(channels: int, side: int) -> Graph:
    """QuantizeLinear of a tensor ``x``, and its Transpose to channels last, as before an integer convolution."""
    return _parse(
        f"(float[1, {channels}, {side}, {side}] x) => (uint8[1, {side}, {side}, {channels}] y) "
        "<float s = {0.05}, uint8 z = {128}> "
        "{ q = QuantizeLinear(x, s, z) y = Transpose<perm = [0, 2, 3, 1]>(q) }"
    )


def build_layout_graph(before: Sequence[int], after: Sequence[int]) -> Graph:
    """The Transposes around an integer convolution that stands alone; between two of them there are none.

    ``x`` becomes channels last, ``z`` channels first.

    Args:
        before: Shape of the convolution's input, channels first.
        after: Shape of its output, channels first.
    """
    last, own = [after[0], *after[2:], after[1]], [before[0], *before[2:], before[1]]
    axes = len(before)
    to_last, to_first = [0, *range(2, axes), 1], [0, axes - 1, *range(1, axes - 1)]
    return _parse(
        f"(uint8{list(before)} x, uint8{last} z) => (uint8{own} y, uint8{list(after)} w) "
        f"{{ y = Transpose<perm = {to_last}>(x) w = Transpose<perm = {to_first}>(z) }}"
    )


def build_block_graph(
    before: Sequence[int] | None, after: Sequence[int] | None, block: int
) -> Graph:
    """The changes of layout around a float convolution that stands alone; between two of them there are none.

    ``x`` becomes blocks of channels, and ``z`` channels first, by kernels of ONNX Runtime's own domain.

    Args:
        before: Shape of the convolution's input; None if it reads channels first.
        after: Shape of its output; None if it writes channels first.
        block: Channels of a block; the last one is filled up.
    """
    inputs, outputs, nodes = list[str](), list[str](), list[str]()
    if before is not None:
        inputs.append(f"float{list(before)} x")
        outputs.append("float[n, c, h, v] y")
        nodes.append("y = com.microsoft.nchwc.ReorderInput(x)")
    if after is not None:
        filled = [after[0], -(-after[1] // block) * block, *after[2:]]
        inputs.append(f"float{filled} z")
        outputs.append(f"float{list(after)} w")
        nodes.append(f"w = com.microsoft.nchwc.ReorderOutput<channels = {after[1]}>(z)")
    domain = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]> g '
    text = f"({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    return Graph.from_proto(onnx.parser.parse_model(domain + text))


def _parse(text: str) -> Graph:
    return Graph.from_proto(onnx.parser.parse_model(_HEADER + text))
