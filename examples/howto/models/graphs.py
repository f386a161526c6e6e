"""Writes a small ONNX model from nodes and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Shape = Sequence[int | str]


def build_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    constants: Mapping[str, Array],
    integer_inputs: frozenset[str] = frozenset(),
) -> onnx.ModelProto:
    """A checked model of opset 17. Floats become float32; nodes are named by their number."""
    for number, node in enumerate(nodes):
        node.name = f"node{number}"
    tensors = []
    for name, value in constants.items():
        dtype = np.int64 if np.asarray(value).dtype.kind == "i" else np.float32
        tensors.append(numpy_helper.from_array(np.asarray(value, dtype), name))
    types = dict.fromkeys(integer_inputs, TensorProto.INT64)
    graph = helper.make_graph(
        nodes,
        "small",
        [
            helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in outputs.items()
        ],
        tensors,
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model
