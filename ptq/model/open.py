"""What a user may give as a model."""

from __future__ import annotations

import os
import re
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.proto_walk import all_tensors

_QUANTIZED = re.compile("Quantize|QLinear|Integer|^Q[A-Z]")
"""Found in the names of quantizers, and of operators on integers: QGemm and QAttention are Microsoft's."""

Model = str | os.PathLike[str] | onnx.ModelProto | Graph


def open_model(model: Model) -> Graph:
    """The model as a graph.

    Raises:
        ModelError: It cannot be read, or is not valid.
    """
    if isinstance(model, Graph):
        return model
    if isinstance(model, onnx.ModelProto):
        return Graph.from_proto(model)
    return Graph.load(Path(model))


def require_float(graph: Graph) -> Graph:
    """The graph itself, if it is a float one.

    Raises:
        ModelError: It is quantized already.
    """
    for node in graph.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") or "QLinear" in node.op_type:
            raise ModelError(
                f"the model is quantized already (node {node.name}); give the float model, "
                "or use `ptq evaluate` and `ptq verify` on this one"
            )
    return graph


def require_quantized(graph: Graph) -> Graph:
    """The graph itself, if there is a node in it that makes, reads or computes with integers for reals.

    Raises:
        ModelError: It is a float one.
    """
    if any(_QUANTIZED.search(node.op_type) for node in graph.model.graph.all_nodes()):
        return graph
    raise ModelError("the model has no integer tensor; quantize it first")


def model_files(path: Path) -> list[Path]:
    """The model's file and those that it says its weights are in; only the first is opened.

    A file that is no model is named alone: who reads it will say so.
    """
    try:
        if not path.is_file():
            return [path]
        proto = onnx.load(path, load_external_data=False)
    except (OSError, ValueError, RuntimeError, DecodeError):
        return [path]
    stored = [
        entry.value
        for tensor in all_tensors(proto)
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    return [path, *(path.parent / name for name in dict.fromkeys(stored))]


def display_name(model: Model) -> str:
    """What reports call the model."""
    return str(model) if isinstance(model, (str, os.PathLike)) else "model in memory"


def source_path(model: Model) -> Path | None:
    """Where a model was read from, whatever the current folder becomes; None of one in memory."""
    return Path(model).absolute() if isinstance(model, (str, os.PathLike)) else None
