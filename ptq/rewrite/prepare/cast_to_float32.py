"""float16, bfloat16 and float64 models → float32 models.

Quantization is defined on float32. Inputs and outputs keep their types: a Cast is inserted at each of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ptq.core.ops import LINEAR_OPS
from ptq.core.types import FloatArray
from ptq.model.graph import Graph
from ptq.model.node import ONNX_DOMAINS, Node, Value, get_name, get_operator, is_tensor
from ptq.rewrite.change import Change

OTHER_FLOAT_TYPES = {
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
    ir.DataType.DOUBLE: "float64",
}
SUBGRAPH_TYPES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def cast_to_float32(graph: Graph) -> list[Change]:
    """Let a model whose products are float16, bfloat16 or float64 compute in float32, in place.

    Declines for a model with sub-graphs or operators of other domains, whose types are not known here, and where an
    input or output is a sequence of such tensors.
    """
    products = [
        n
        for n in graph.nodes
        if get_operator(n) in LINEAR_OPS and n.outputs[0].dtype in OTHER_FLOAT_TYPES
    ]
    if not products:
        return []
    kind = next(OTHER_FLOAT_TYPES[v.dtype] for v in products[0].outputs if v.dtype is not None)
    reason = ""
    if not all(_is_convertible(node) for node in graph.nodes):
        reason = "the model has sub-graphs or operators outside the ONNX domain"
    elif not all(
        is_tensor(value)
        for value in (*graph.inputs, *graph.outputs)
        if value.dtype in OTHER_FLOAT_TYPES
    ):
        reason = "an input or output is a sequence, which no Cast takes"
    if reason:
        return [Change("cast_to_float32", len(products), old=kind, declined=reason)]
    first = graph.nodes[0]
    for value in [
        *graph.inputs,
        *{v: None for n in graph.nodes for v in n.inputs if v is not None},
    ]:
        if value.dtype in OTHER_FLOAT_TYPES and value.is_initializer():
            _convert_constant(value)
        elif value.dtype in OTHER_FLOAT_TYPES and value.is_graph_input() and value.uses():
            cast = _insert_cast(graph, value, ir.DataType.FLOAT, before=first)
            graph.redirect(value, cast, keep=[n for n in [cast.producer()] if n is not None])
    outputs = [(v, ir.DataType(v.dtype)) for v in graph.outputs if v.dtype in OTHER_FLOAT_TYPES]
    for node in graph.nodes:
        _convert_node(node)
    for value, dtype in outputs:
        if value.producer() is not None and value.dtype is ir.DataType.FLOAT:
            shape, name = value.shape, get_name(value)
            cast = _insert_cast(graph, value, dtype)
            graph.replace_output(value, cast)
            cast.type, cast.shape = ir.TensorType(dtype), shape
            assert cast.name == name
    return [Change("cast_to_float32", len(products), old=kind)]


def _is_convertible(node: Node) -> bool:
    return node.domain in ONNX_DOMAINS and not any(
        a.type in SUBGRAPH_TYPES for a in node.attributes.values()
    )


def _convert_constant(value: Value) -> None:
    assert value.const_value is not None
    array = _round_to_float32(value.const_value.numpy())
    value.const_value = ir.tensor(array, name=value.name)
    value.type = ir.TensorType(ir.DataType.FLOAT)


def _round_to_float32(array: NDArray[Any]) -> FloatArray:
    """The nearest finite values: the lowest float64, with which masks are written, would become infinite."""
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32)
    beyond = np.isinf(rounded) & np.isfinite(array)
    largest = np.copysign(np.finfo(np.float32).max, rounded)
    return np.where(beyond, largest, rounded) if beyond.any() else rounded


def _convert_node(node: Node) -> None:
    """Declare float32 for the outputs and attributes of a node that have another floating-point type."""
    for name, attribute in list(node.attributes.items()):
        if name in ("to", "dtype", "output_dtype") and attribute.value in OTHER_FLOAT_TYPES:
            node.attributes[name] = ir.AttrInt64(name, int(ir.DataType.FLOAT))
        elif (
            attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype in OTHER_FLOAT_TYPES
        ):
            tensor = ir.tensor(_round_to_float32(attribute.value.numpy()))
            node.attributes[name] = ir.AttrTensor(name, tensor)
    for output in node.outputs:
        if output.dtype in OTHER_FLOAT_TYPES and not (
            get_operator(node) == "Cast" and node.attributes["to"].value == output.dtype
        ):
            output.dtype = ir.DataType.FLOAT


def _insert_cast(
    graph: Graph, value: Value, dtype: ir.DataType, before: Node | None = None
) -> Value:
    cast = graph.insert(
        "Cast",
        [value],
        attrs={"to": int(dtype)},
        before=before,
        after=None if before is not None else value.producer(),
        output=f"{get_name(value)}_cast",
        shape_like=value,
    )
    cast.type = ir.TensorType(dtype)
    return cast
