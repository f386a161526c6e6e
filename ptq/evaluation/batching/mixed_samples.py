"""Nodes that compute a value from several samples of a batch, as a sum over all or a recurrence along the batch.

A graph is read whose batch is a number that no other axis is a multiple of: where it stands in shapes shows what
becomes of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ptq.core.errors import ModelError
from ptq.evaluation.batching.batch_layout import BatchLayout
from ptq.evaluation.batching.sample_positions import SamplePositions
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    get_shape,
)

_FIRST_SOFTMAX_OF_ONE_AXIS = 13
"""The opset since which Softmax reads one axis; before, it reads that axis and all behind it."""
_FIRST_DFT_WITH_AXIS_INPUT = 20
_SIZES = frozenset(["Shape", "Size"])
_AXIS_OPS = frozenset(["Hardmax", "LogSoftmax", "LpNormalization", "Softmax"])
_LAYER_NORMS = frozenset(["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"])
_RECURRENT = frozenset(["GRU", "LSTM", "RNN"])
_MATRICES = frozenset(["Det", "EyeLike", "Trilu"])
"""What they give depends on the place in the last two axes."""
_VALUES_DECIDE_LENGTHS = frozenset(["Compress", "NonMaxSuppression", "NonZero", "Unique"])
"""All samples follow one another in their outputs, each with as many rows as its values ask for."""
_WINDOWS = frozenset(
    [
        "AveragePool",
        "Conv",
        "ConvTranspose",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "GroupNormalization",
        "InstanceNormalization",
        "LRN",
        "LpPool",
        "MaxPool",
    ]
)
"""Their first axis is the batch; they read several positions of the other axes."""

_RESIZES = frozenset(["Resize", "Upsample"])

_Axes = Collection[int]


def has_mixed_samples(graph: Graph, batch: int, shape: Callable[[int], Graph]) -> bool:
    """Whether a node reads several samples for one value. An operator that is not known counts as no.

    Args:
        graph: A model with inferred shapes and that batch.
        batch: A number that no other length is a multiple of.
        shape: Makes the same model with another batch and inferred shapes.
    """
    positions = SamplePositions(graph, batch, shape)

    def batch_axes(value: Value | None) -> list[int]:
        shape = None if value is None or get_name(value) in positions.sizes else get_shape(value)
        return [k for k, n in enumerate(shape or ()) if n and n % batch == 0]

    layout = BatchLayout(batch, batch_axes)
    try:
        return any(
            _is_mixing(node, graph.opset, batch_axes)
            or positions.mix_samples(node, batch_axes)
            or layout.mixes_samples(node)
            for node in graph.model.graph.all_nodes()
            if get_operator(node) not in _SIZES and any(map(batch_axes, node.inputs))
        ) or any(map(positions.counts_samples, graph.outputs))
    except ModelError:  # lengths that decide positions are unknown
        return True


def _is_mixing(node: Node, opset: int, batch_axes: Callable[[Value | None], _Axes]) -> bool:
    if get_operator(node) in _VALUES_DECIDE_LENGTHS:
        return True
    for value in node.outputs:
        shape = get_shape(value) if value.name else None
        is_known = shape is not None and None not in shape
        if len(batch_axes(value)) > 1 or (is_known and not batch_axes(value)):
            return True
    first = node.inputs[0] if node.inputs else None
    rank = len((get_shape(first) if first is not None else None) or ())
    read = {axis % rank for axis in _list_read_axes(node, opset, rank)} if rank else set()
    return (
        not read.isdisjoint(batch_axes(first))
        or _is_sum_of_samples(node, batch_axes)
        or _is_scan_of_samples(node, batch_axes)
        or _has_batch_positions(node)
    )


def _list_read_axes(node: Node, opset: int, rank: int) -> _Axes:
    """The axes of the first input that a value of the output follows from as a whole, where it keeps them."""
    op, attributes = get_operator(node), get_attributes(node)
    if op in _AXIS_OPS:
        is_old = opset < _FIRST_SOFTMAX_OF_ONE_AXIS and op != "LpNormalization"
        axis = int(attributes.get("axis", 1 if is_old else -1))
        return range(axis % rank, rank) if is_old else [axis]
    if op in _LAYER_NORMS:
        return range(int(attributes.get("axis", -1)) % rank, rank)
    if op == "MeanVarianceNormalization":
        return [int(axis) for axis in attributes.get("axes", (0, 2, 3))]
    if op == "CumSum":
        return _read_axes(node.inputs[1], rank)
    if op in _MATRICES:
        return range(max(rank - 2, 0), rank)
    if op in _RECURRENT:
        return [1 if attributes.get("layout", 0) else 0]
    if op == "DFT":
        return _find_transformed_axes(node, opset, rank)
    if op in _WINDOWS:
        return range(1, rank)
    if op in _RESIZES:
        return _find_resized_axes(node, rank)
    if op == "BatchNormalization" and attributes.get("training_mode", 0):
        return [0]
    if op == "MatMul" and rank > 1:
        return [rank - 1]
    if op == "Gemm":
        return [0 if attributes.get("transA", 0) else 1]
    return []


def _find_transformed_axes(node: Node, opset: int, rank: int) -> _Axes:
    """The axis of a DFT, all if it is computed: an attribute, since opset 20 an input."""
    if opset < _FIRST_DFT_WITH_AXIS_INPUT:
        return [int(get_attributes(node).get("axis", 1))]
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return [-2]
    return _read_axes(node.inputs[2], rank)


def _read_axes(value: Value | None, rank: int) -> _Axes:
    """The axes that an input names, all if they are computed."""
    axes = get_constant(value)
    return range(rank) if axes is None else [int(axis) for axis in axes.reshape(-1)]


def _find_resized_axes(node: Node, rank: int) -> _Axes:
    """The axes whose length changes. An unknown length of the first axis, usually the batch, is taken as kept."""
    before, after = (
        (None if value is None else get_shape(value)) or (None,) * rank
        for value in (node.inputs[0], node.outputs[0])
    )
    return [k for k in range(rank) if before[k] != after[k] and (k or after[k] is not None)]


def _has_batch_positions(node: Node) -> bool:
    """Whether a MaxPool gives positions, which count over the whole batch, to another node than a MaxUnpool."""
    if get_operator(node) != "MaxPool" or len(node.outputs) < 2:
        return False
    positions = node.outputs[1]
    return positions.is_graph_output() or any(
        get_operator(use.node) != "MaxUnpool" for use in positions.uses()
    )


def _is_scan_of_samples(node: Node, batch_axes: Callable[[Value | None], _Axes]) -> bool:
    """Whether a Scan takes the samples one after another; its state may follow from each."""
    if get_operator(node) != "Scan":
        return False
    attributes = get_attributes(node)
    count = int(attributes["num_scan_inputs"])
    scanned = list(node.inputs)[-count:]
    axes = attributes.get("scan_input_axes") or [0] * count
    pairs = zip(scanned, axes, strict=True)
    return any(int(axis) % len(get_shape(v) or [0]) in batch_axes(v) for v, axis in pairs if v)


def _is_sum_of_samples(node: Node, batch_axes: Callable[[Value | None], _Axes]) -> bool:
    """Whether an Einsum sums over the batch."""
    if get_operator(node) != "Einsum":
        return False
    terms, arrow, result = get_attributes(node)["equation"].replace(" ", "").partition("->")
    kept = result if arrow else {letter for letter in terms if terms.count(letter) == 1} | {"."}
    for term, value in zip(terms.split(","), node.inputs, strict=True):
        shape = None if value is None else get_shape(value)
        head, _, tail = term.partition("...")
        letters = [*head, *"." * (len(shape or ()) - len(head) - len(tail)), *tail]
        if any(axis < len(letters) and letters[axis] not in kept for axis in batch_axes(value)):
            return True
    return False
