"""Quantized graphs as other tools write them: a few lines of ONNX's text form between parameters that repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from ptq.data import Sample
from ptq.model.graph import Graph

Array = Any

INPUT_QDQ = """
xq = QuantizeLinear(x, x_scale, x_zero)
xd = DequantizeLinear(xq, x_scale, x_zero)
"""
OUTPUT_QDQ = """
yq = QuantizeLinear(r, y_scale, y_zero)
y = DequantizeLinear(yq, y_scale, y_zero)
"""


def random_integers(*shape: int, seed: int = 0, dtype: type = np.int8) -> Array:
    """Random integers over a type's whole range."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def foreign_graph(
    nodes: str,
    shape: Sequence[int | str] = (1, 3, 8, 8),
    *,
    opset: int = 17,
    input_type: int = TensorProto.FLOAT,
    outputs: Mapping[str, int] | None = None,
    **constants: Array,
) -> Graph:
    """A graph of the nodes; x, w and y have scales and zero points by name unless given otherwise."""
    given = {
        "x_scale": np.float32(0.03),
        "x_zero": np.uint8(120),
        "w_scale": np.float32(0.01),
        "w_zero": np.int8(0),
        "y_scale": np.float32(0.11),
        "y_zero": np.uint8(100),
        **constants,
    }
    lines = [line for line in nodes.splitlines() if line.strip()]
    text = "\n".join(lines)
    used = {name: array for name, array in given.items() if name in text}
    graph = helper.make_graph(
        [onnx.parser.parse_node(line) for line in lines],
        "foreign",
        [helper.make_tensor_value_info("x", input_type, shape)],
        [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in (outputs or {"y": TensorProto.FLOAT}).items()
        ],
        [_tensor(array, name) for name, array in used.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model)
    for output, known in zip(model.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(known)
        if not output.type.tensor_type.HasField("shape"):  # behind Microsoft's operators
            for axis in range(len(shape)):
                output.type.tensor_type.shape.dim.add(dim_param=f"{output.name}_{axis}")
    return Graph.from_proto(model)


def _tensor(array: Array, name: str) -> onnx.TensorProto:
    if isinstance(array, onnx.TensorProto):
        array.name = name
        return array
    return numpy_helper.from_array(np.asarray(array), name)


def random_samples(
    shape: Sequence[int], count: int = 4, dtype: type = np.float32, scale: float = 1.5
) -> list[Sample]:
    """Gaussian samples, or integers over the whole type, for the input x."""
    rng = np.random.default_rng(7)
    made = []
    for i in range(count):
        if np.dtype(dtype).kind == "f":
            x = rng.normal(0, scale, shape).astype(dtype)
        else:
            info = np.iinfo(dtype)
            x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        made.append(Sample(f"sample {i}", {"x": x}, ()))
    return made
