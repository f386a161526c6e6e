"""A `.tflite` file as an ONNX model in QDQ form, from the flatbuffer alone.

Integer tensors keep their names, values and axes, so that they can be compared with LiteRT's. Inputs and outputs have
the axes of the ONNX model from which ptq wrote the file.
"""

from __future__ import annotations

import onnx
import onnx.shape_inference

from ptq.core.errors import UnsupportedError
from ptq.model.tflite.graph_builder import GraphBuilder
from ptq.model.tflite.operators import ROWS
from ptq.model.tflite.options import require_read_options
from ptq.model.tflite.parsed import parse_tflite


def read_tflite(content: bytes) -> onnx.ModelProto:
    """The ONNX model of a `.tflite` file, with its metadata.

    Raises:
        ModelError: The bytes are no `.tflite` file, or a damaged one.
        UnsupportedError: An operator is not read, or ``ai-edge-litert`` is not installed.
    """
    model = parse_tflite(content)
    builder = GraphBuilder(model)
    builder.read_inputs()
    for o in model.operators:
        row = ROWS.get(o.builtin)
        name = model.tensors[o.outputs[0]].name if o.outputs else ""
        if row is None:
            raise UnsupportedError(
                f"operator {o.builtin} (tensor {name}) of the .tflite file is not read"
            )
        require_read_options(o, name)
        row(builder, o)
    return onnx.shape_inference.infer_shapes(builder.to_proto())
