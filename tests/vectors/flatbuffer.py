"""Build a LiteRT model of one operator (make.py runs it)."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

FILTER = {"filter_h": "filterHeight", "filter_w": "filterWidth"}
OPTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "CONV_2D": ("Conv2DOptions", {"dilation_h": "dilationHFactor", "dilation_w": "dilationWFactor"}),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", {"dilation_h": "dilationHFactor",
                                                    "dilation_w": "dilationWFactor"}),
    "TRANSPOSE_CONV": ("TransposeConvOptions", {}), "FULLY_CONNECTED": ("FullyConnectedOptions", {}),
    "BATCH_MATMUL": ("BatchMatMulOptions", {}), "ADD": ("AddOptions", {}), "SUB": ("SubOptions", {}),
    "MUL": ("MulOptions", {}), "AVERAGE_POOL_2D": ("Pool2DOptions", FILTER),
    "MAX_POOL_2D": ("Pool2DOptions", FILTER), "MEAN": ("ReducerOptions", {}),
    "SOFTMAX": ("SoftmaxOptions", {}), "LEAKY_RELU": ("LeakyReluOptions", {}),
    "L2_NORMALIZATION": ("L2NormOptions", {}), "RESIZE_BILINEAR": ("ResizeBilinearOptions", {}),
    "GELU": ("GeluOptions", {}), "DIV": ("DivOptions", {}),
    "ARG_MAX": ("ArgMaxOptions", {}), "CONCATENATION": ("ConcatenationOptions", {}),
    "GATHER": ("GatherOptions", {}), "REDUCE_MAX": ("ReducerOptions", {}),
    "REDUCE_MIN": ("ReducerOptions", {}),
    "STRIDED_SLICE": ("StridedSliceOptions", {}),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", {}),
    "ARG_MIN": ("ArgMinOptions", {}), "SHAPE": ("ShapeOptions", {}),
    "SQUEEZE": ("SqueezeOptions", {}), "DEPTH_TO_SPACE": ("DepthToSpaceOptions", {}),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", {}), "SUM": ("ReducerOptions", {}),
}  # fmt: skip

FIRST = (
    """ABS DIV EXP LOG SQRT PRELU HARD_SWISH RELU_N1_TO_1 RESHAPE SQUEEZE DEPTH_TO_SPACE SHAPE"""
)
VERSIONS = {**dict.fromkeys(FIRST.split(), 1), "TRANSPOSE_CONV": 3}


def litert_model(op: str, attributes: dict[str, Any], tensors: list[dict[str, Any]]) -> bytes:
    """A flatbuffer of one operator; the last tensor is its output."""
    model, graph, node = schema.ModelT(), schema.SubGraphT(), schema.OperatorT()
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, op)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), VERSIONS.get(op, 2)
    model.operatorCodes, graph.operators, graph.tensors = [code], [node], []
    if op in OPTIONS:
        kind, renamed = OPTIONS[op]
        options = getattr(schema, kind + "T")()
        for key, value in attributes.items():
            words = key.split("_")
            field = renamed.get(key, words[0] + "".join(w.title() for w in words[1:]))
            if key == "activation":
                field, value = (
                    "fusedActivationFunction",
                    getattr(schema.ActivationFunctionType, value),
                )
            if key == "padding":
                value = getattr(schema.Padding, value)
            if hasattr(options, field):
                setattr(options, field, value)
        node.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        node.builtinOptions = options
    for t in tensors:
        tensor = schema.TensorT()
        tensor.name, tensor.shape = t["name"], list(t["value"].shape)
        tensor.type = getattr(schema.TensorType, t["value"].dtype.name.upper())
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = t["scale"], t["zero"]
        tensor.quantization.quantizedDimension = t.get("axis", 0)
        if t["role"] == "const":
            model.buffers.append(schema.BufferT())
            model.buffers[-1].data = np.frombuffer(t["value"].tobytes(), np.uint8)
            tensor.buffer = len(model.buffers) - 1
        graph.tensors.append(tensor)
    count = len(tensors)
    node.inputs, node.outputs, graph.outputs = list(range(count - 1)), [count - 1], [count - 1]
    graph.inputs = [i for i, t in enumerate(tensors) if t["role"] == "input"]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
