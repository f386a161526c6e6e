"""Mutation of a model: the same message with a few things replaced by things of the same kind."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import numpy_helper

from ptq.core.ops import OPS, QLINEAR_FORMS

# no extreme ones: those are a test of the runtimes, whose faults end the process
INTEGERS = (0, 1, -1, 2, 3, 4, 7)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-20, 3e38, -3e38, np.inf, -np.inf, np.nan, 0.5)

OPERATORS = (
    *OPS,
    *QLINEAR_FORMS,
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
)
MICROSOFT = "com.microsoft"


def mutate(model: onnx.ModelProto, chance: random.Random) -> None:
    """Change a model by one to four random mutations, in place."""
    for _ in range(chance.randint(1, 4)):
        chance.choice(MUTATIONS)(model.graph, chance)
    if chance.random() < 0.05 and model.opset_import:
        if all(known.domain != MICROSOFT for known in model.opset_import):
            model.opset_import.add(domain=MICROSOFT, version=1)
        model.opset_import[0].version = chance.choice((1, 7, 9, 11, 13, 18, 21, 24, 27))


def _names(graph: onnx.GraphProto) -> list[str]:
    made = [name for node in graph.node for name in node.output]
    return [*made, *(v.name for v in graph.input), *(t.name for t in graph.initializer), ""]


def _exchange_operator(graph: onnx.GraphProto, chance: random.Random) -> None:
    if graph.node:
        chance.choice(graph.node).op_type = chance.choice(OPERATORS)


def _exchange_domain(graph: onnx.GraphProto, chance: random.Random) -> None:
    if graph.node:
        node = chance.choice(graph.node)
        node.domain = "" if node.domain else MICROSOFT


def _exchange_input(graph: onnx.GraphProto, chance: random.Random) -> None:
    node = chance.choice(graph.node) if graph.node else None
    if node is not None and node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(_names(graph))


def _exchange_output(graph: onnx.GraphProto, chance: random.Random) -> None:
    if graph.output:
        chance.choice(graph.output).name = chance.choice(_names(graph))


def _add_output(graph: onnx.GraphProto, chance: random.Random) -> None:
    graph.output.add().name = chance.choice(_names(graph))


def _drop_node(graph: onnx.GraphProto, chance: random.Random) -> None:
    if len(graph.node) > 1:
        del graph.node[chance.randrange(len(graph.node))]


def _append_node(graph: onnx.GraphProto, chance: random.Random) -> None:
    """Insert a node of the operator table between an output and its producer."""
    if not graph.output:
        return
    name = chance.choice(graph.output).name
    node = graph.node.add(op_type=chance.choice(OPERATORS))
    for other in graph.node:
        for place, output in enumerate(other.output):
            if output == name:
                other.output[place] = f"{name}_{len(graph.node)}"
    count = chance.choice((1, 1, 2, 3))
    node.input.extend([f"{name}_{len(graph.node)}"])
    node.input.extend(chance.choice(_names(graph)) for _ in range(count - 1))
    node.output.append(name)


def _change_attribute(graph: onnx.GraphProto, chance: random.Random) -> None:
    attributes = [a for node in graph.node for a in node.attribute]
    if not attributes:
        return
    attribute = chance.choice(attributes)
    if attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(INTEGERS)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = chance.choice(INTEGERS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = chance.choice(FLOATS)
    else:
        graph.node[0].attribute.append(attribute)


def _drop_attribute(graph: onnx.GraphProto, chance: random.Random) -> None:
    node = chance.choice(graph.node) if graph.node else None
    if node is not None and node.attribute:
        del node.attribute[chance.randrange(len(node.attribute))]


def _change_initializer(graph: onnx.GraphProto, chance: random.Random) -> None:
    """Change one number, or the shape, of an initializer."""
    if not graph.initializer:
        return
    tensor = chance.choice(graph.initializer)
    how = chance.random()
    if how < 0.1 and tensor.dims:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(INTEGERS)
    elif how < 0.2:
        tensor.data_type = chance.randrange(24)
    elif tensor.data_type == onnx.TensorProto.FLOAT:
        array = numpy_helper.to_array(tensor).copy()
        if how < 0.4 and array.ndim:
            array = np.moveaxis(array, 0, -1)
        elif how < 0.5:
            array = array * np.float32(chance.choice(FLOATS))
        elif how < 0.6:
            array = array[None]
        elif array.size:
            array.flat[chance.randrange(array.size)] = chance.choice(FLOATS)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))
    elif tensor.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8):
        tensor.CopyFrom(numpy_helper.from_array(_mutate_integers(tensor, chance), tensor.name))


def _mutate_integers(tensor: onnx.TensorProto, chance: random.Random) -> np.ndarray:
    """Change the type, shape or values of a zero point or weight."""
    array = numpy_helper.to_array(tensor).copy()
    how = chance.random()
    if how < 0.4:
        return array.view(np.uint8 if array.dtype == np.int8 else np.int8)
    if how < 0.5:
        return array.reshape(-1)[:1] if array.ndim != 1 else array.reshape(-1)[:1].reshape(())
    if array.size:
        array.flat[chance.randrange(array.size)] = chance.choice((0, 1, 127))
    return array


def _change_input_shape(graph: onnx.GraphProto, chance: random.Random) -> None:
    if not graph.input:
        return
    dims = chance.choice(graph.input).type.tensor_type.shape.dim
    if dims:
        dim = chance.choice(dims)
        if chance.random() < 0.5:
            dim.dim_param = chance.choice(("N", "", "M"))
        else:
            dim.dim_value = chance.choice((0, 1, 2, 3, 5, -1))


def _freeze_input(graph: onnx.GraphProto, chance: random.Random) -> None:
    """Replace an input by a constant: real models have weights there."""
    if len(graph.input) < 2:
        return
    place = chance.randrange(1, len(graph.input))
    kind = graph.input[place].type.tensor_type
    if kind.elem_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64):
        return
    shape = [d.dim_value for d in kind.shape.dim]
    if all(0 < d < 20 for d in shape) and len(shape) < 5:
        random_array = np.random.default_rng(chance.randrange(99)).standard_normal(shape)
        dtype = np.float32 if kind.elem_type == onnx.TensorProto.FLOAT else np.int64
        tensor = numpy_helper.from_array(random_array.astype(dtype), graph.input[place].name)
        graph.initializer.append(tensor)
        del graph.input[place]


MUTATIONS: tuple[Callable[[onnx.GraphProto, random.Random], None], ...] = (
    _exchange_operator,
    _exchange_domain,
    _exchange_input,
    _exchange_output,
    _add_output,
    _drop_node,
    _append_node,
    _append_node,
    _change_attribute,
    _drop_attribute,
    _change_initializer,
    _change_initializer,
    _change_input_shape,
    _freeze_input,
)
