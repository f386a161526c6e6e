"""The usual reasons why integers are slow in ONNX Runtime, read from its own optimized graph.

ONNX Runtime fuses quantizers and operators into integer kernels where its rules allow. What it could not fuse stays
in the optimized graph: quantizers around float nodes, and Transposes between kernels.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ptq.core.wording import plural
from ptq.model.graph import Graph
from ptq.model.node import (
    DEQUANTIZE_OPS,
    QUANTIZE_OPS,
    Node,
    get_attributes,
    get_constant_shape,
    get_operator,
    get_shape,
    is_constant,
    list_producers,
    list_readers,
)
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.solver.partition.cost_model import TensorSizes, estimate_sizes
from ptq.verification.ort_fusions import optimize_with_ort

Cause = Literal[
    "per-channel quantizers",
    "float islands",
    "transposes",
    "small channels",
    "few rows",
    "no VNNI",
    "outside of XNNPACK",
]

FEW_ROWS = 4
"""Rows of a product below which weights are read once for hardly any arithmetic."""
SMALL_DEPTH, SMALL_WIDTH = 32, 16
"""Products per sum, and sums per row, below which a kernel mostly packs and rounds."""
MIN_SHARE = 0.5
"""Share of the integer layers from which on small layers decide the speed."""

_CONVOLUTIONS = {"QLinearConv", "ConvInteger", "com.microsoft::QLinearConv"}
_PRODUCTS = {
    "QLinearMatMul": 3,
    "MatMulInteger": 1,
    "com.microsoft::QGemm": 3,
    "com.microsoft::MatMulIntegerToFloat": 1,
    "com.microsoft::DynamicQuantizeMatMul": 1,
}
"""Integer matrix products, each with the position of its second factor."""


@dataclass(frozen=True)
class SlowPattern:
    """One reason why integers are slow.

    Attributes:
        cause: Its short name.
        what: What was found, and why it takes time.
        advice: What to do.
    """

    cause: Cause
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}"


def find_slow_patterns(graph: Graph) -> tuple[SlowPattern, ...]:
    """The reasons why a quantized model may be slow in ONNX Runtime on this processor.

    Args:
        graph: A quantized model in any form.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    nodes = optimize_with_ort(graph).nodes
    own = {node.name for node in graph.nodes}  # ONNX Runtime adds Transposes for its own layouts
    found = (
        *_find_channel_quantizers(nodes),
        *_find_islands(nodes),
        *_find_transposes(nodes, own),
        *_find_small_layers(nodes),
        *_find_few_rows(graph),
    )
    integer = any(get_operator(node) in (*_CONVOLUTIONS, *_PRODUCTS) for node in nodes)
    return (*found, *(_check_processor() if integer else ()))


def _find_channel_quantizers(nodes: Sequence[Node]) -> Iterator[SlowPattern]:
    """Quantizers of activations with a scale for each channel, behind axis 1: channels lie side by side there."""
    found = [
        node
        for node in nodes
        if get_operator(node) in QUANTIZE_OPS
        and not is_constant(node.inputs[0])
        and math.prod(get_constant_shape(node.inputs[1]) or ()) > 1
        and get_attributes(node).get("axis", 1) not in (0, 1)
    ]
    if found:
        yield SlowPattern(
            "per-channel quantizers",
            f"{plural(len(found), 'QuantizeLinear node')} with a scale for each channel, channels last: each value "
            "takes as long as a hundred with one scale",
            "give activations one scale for each tensor (option equalize)",
        )


def _find_islands(nodes: Sequence[Node]) -> Iterator[SlowPattern]:
    """Float nodes that get integers and return integers."""
    starts = [
        n for n in nodes if get_operator(n) in DEQUANTIZE_OPS and not is_constant(n.inputs[0])
    ]
    ends = [n for n in nodes if get_operator(n) in QUANTIZE_OPS]
    behind = _find_reached(starts, list_readers, QUANTIZE_OPS)
    before = _find_reached(ends, list_producers, DEQUANTIZE_OPS)
    inside = [
        n for n in nodes if id(n) in behind and id(n) in before and get_operator(n) != "Transpose"
    ]
    if inside:
        yield SlowPattern(
            "float islands",
            f"{plural(len(inside), 'node')} between integers run in float ({_tally(inside)}): each island costs "
            "quantizers at both ends",
            "keep its neighbours in float too (option skip), or replace its operators",
        )


def _find_transposes(nodes: Sequence[Node], own: set[str | None]) -> Iterator[SlowPattern]:
    near = {*QUANTIZE_OPS, *DEQUANTIZE_OPS, *_CONVOLUTIONS, *_PRODUCTS}
    found = [
        node
        for node in nodes
        if get_operator(node) == "Transpose"
        and node.name in own
        and not is_constant(node.inputs[0])
        and any(
            get_operator(other) in near for other in (*list_producers(node), *list_readers(node))
        )
    ]
    if found:
        yield SlowPattern(
            "transposes",
            f"{plural(len(found), 'Transpose')} between quantizers and layers: ONNX Runtime fuses no integer kernel "
            "across them",
            "expect less gain where the network itself needs them, as attention does; else export it without them",
        )


def _find_small_layers(nodes: Sequence[Node]) -> Iterator[SlowPattern]:
    layers = [n for n in nodes if get_operator(n) in _CONVOLUTIONS or get_operator(n) in _PRODUCTS]
    thin = [node for node in layers if _is_thin(node)]
    if layers and len(thin) >= MIN_SHARE * len(layers):
        yield SlowPattern(
            "small channels",
            f"{_count_layers(thin, layers)} {'has' if len(thin) == 1 else 'have'} few channels (sums of fewer than "
            f"{SMALL_DEPTH} products, or fewer than {SMALL_WIDTH} outputs): packing and rounding take longer than "
            "the products",
            "expect little gain, or keep them in float (option skip)",
        )


def _find_few_rows(graph: Graph) -> Iterator[SlowPattern]:
    """Layers that multiply few rows; shapes are known in the given graph only."""
    shaped = graph.with_shapes()
    size = estimate_sizes(shaped)
    rows = [_count_rows(node, size) for node in shaped.nodes if _has_integer_weight(node)]
    short = [count for count in rows if count <= FEW_ROWS]
    if rows and len(short) >= MIN_SHARE * len(rows):
        yield SlowPattern(
            "few rows",
            f"{_count_layers(short, rows)} {'multiplies' if len(short) == 1 else 'multiply'} at most {FEW_ROWS} rows "
            "at once (a batch of one): reading weights takes longer than the products",
            "run several samples at once",
        )


def _count_layers(some: Sequence[object], layers: Sequence[object]) -> str:
    return f"{len(some)} of {plural(len(layers), 'integer layer')}"


def _is_thin(node: Node) -> bool:
    """Whether a layer sums few products or has few outputs; depthwise convolutions have kernels of their own."""
    op = get_operator(node)
    at = 3 if op.endswith("QLinearConv") else 1 if op == "ConvInteger" else _PRODUCTS[op]
    weight = node.inputs[at]
    shape = None if weight is None else get_shape(weight)
    if shape is None or any(size is None for size in shape):
        return False
    sizes = [int(size) for size in shape if size is not None]
    if op in _CONVOLUTIONS:
        if int(get_attributes(node).get("group", 1)) > 1:
            return False
        return math.prod(sizes[1:]) < SMALL_DEPTH or sizes[0] < SMALL_WIDTH
    if len(sizes) < 2:
        return False
    depth, width = sizes[-2:]
    return depth < SMALL_DEPTH or width < SMALL_WIDTH


def _has_integer_weight(node: Node) -> bool:
    op = get_operator(node)
    if op in _PRODUCTS or op in _CONVOLUTIONS:
        return True
    weight = node.inputs[1] if op in ("Conv", "MatMul", "Gemm") else None
    maker = None if weight is None else weight.producer()
    return maker is not None and get_operator(maker) in DEQUANTIZE_OPS


def _count_rows(node: Node, size: TensorSizes) -> float:
    """Rows that a layer multiplies with its weights for one sample; infinite if they are unknown."""
    shape = get_shape(node.outputs[0])
    if shape is None or len(shape) < 2:
        return math.inf
    channels = shape[1 if get_operator(node) in {*_CONVOLUTIONS, "Conv"} else -1]
    return size(node.outputs[0]) / channels if channels else math.inf


def _check_processor() -> Iterator[SlowPattern]:
    if not has_exact_int8_sums() and platform.machine().lower() in ("x86_64", "amd64", "i686"):
        yield SlowPattern(
            "no VNNI",
            "this x86 processor has no VNNI instructions: int8 products take about as long as float ones",
            "measure on the processor that the model will run on",
        )


def _find_reached(
    starts: Sequence[Node], follow: Callable[[Node], Iterable[Node]], stop: frozenset[str]
) -> set[int]:
    """Ids of the nodes that are reached from some nodes without passing one of the operators."""
    waiting = [other for node in starts for other in follow(node)]
    reached = set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in reached or get_operator(node) in stop:
            continue
        reached.add(id(node))
        waiting += follow(node)
    return reached


def _tally(nodes: Sequence[Node]) -> str:
    counts = Counter(get_operator(node).rpartition("::")[2] for node in nodes)
    return ", ".join(f"{count} {op}" for op, count in counts.most_common(4))
