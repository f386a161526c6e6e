"""Models that a user passes: opening, float or quantized, name and files."""

from __future__ import annotations

import mmap
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx.external_data_helper import uses_external_data

from ptq.core import remote
from ptq.core.errors import ModelError, UsageError
from ptq.core.option_checks import require_path
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, Node
from ptq.model.proto.proto_walk import list_tensors
from ptq.model.proto.weight_files import find_weight_file
from ptq.model.tflite.read import read_tflite
from ptq.model.tflite.schema import IDENTIFIER, SUFFIX

_QUANTIZED = re.compile("Quantize|QLinear|Integer|^Q[A-Z]")
"""Pattern of the names of quantizers and of integer operators. QGemm and QAttention are Microsoft's."""


class HoldsGraph(Protocol):
    """A result of ptq that has a model: of ``quantize`` or ``convert``."""

    @property
    def graph(self) -> Graph:
        """The model."""
        ...


Model = str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model | Graph | HoldsGraph
"""A path of ONNX's or LiteRT's file, a serialized model, a model in memory, or a result of ptq that has one."""


def open_model(model: Model) -> Graph:
    """Open a model as a graph.

    Raises:
        ModelError: The model cannot be read, or is not valid.
        UsageError: It is nothing that holds a model.
    """
    if isinstance(model, Graph):
        return model
    if isinstance(model, os.PathLike):
        require_path("model", model)
    content = read_tflite_content(model)
    if content is not None:
        return Graph.from_proto(read_tflite(content))
    if isinstance(model, (str, os.PathLike)) and (url := remote.as_url(model)) is not None:
        return Graph.from_proto(_fetch_message(url))
    if isinstance(model, (str, os.PathLike)):
        return Graph.load(Path(model))
    if isinstance(model, ir.Model):
        model = ir.to_proto(model)
    if isinstance(model, bytes):
        model = _parse_message(model)
    if isinstance(model, onnx.ModelProto):
        return Graph.from_proto(model)
    graph = getattr(model, "graph", None)
    if isinstance(graph, Graph):
        return graph
    raise UsageError(
        f"model of type {type(model).__name__}; give a path, bytes, a ModelProto or a result of ptq"
    )


def _fetch_message(url: str) -> onnx.ModelProto:
    title = remote.redact(url)
    try:
        content = remote.read(url)
    except OSError as error:
        raise ModelError(f"model {title} cannot be read: {error.strerror}") from error
    try:
        proto = _parse_message(content)
    except ModelError:
        raise ModelError(f"model {title} is not an ONNX file, or is damaged") from None
    if any(map(uses_external_data, list_tensors(proto))):
        raise ModelError(f"model {title} has weights in other files; copy them to a folder first")
    return proto


def read_tflite_content(model: Model) -> bytes | None:
    """The bytes of a `.tflite` file, given as a path that ends so or as bytes; None for any other model.

    Raises:
        ModelError: The file cannot be read.
    """
    if isinstance(model, bytes):
        return model if model[4:8] == IDENTIFIER else None
    if not isinstance(model, (str, os.PathLike)):
        return None
    url = remote.as_url(model)
    if Path(model if url is None else remote.without_query(url)).suffix.lower() != SUFFIX:
        return None
    try:
        return Path(model).read_bytes() if url is None else remote.read(url)
    except OSError as error:
        raise ModelError(
            f"{remote.redact(model)}: cannot be read ({error.strerror}); give a .tflite file"
        ) from None


def _parse_message(content: bytes) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError:
        raise ModelError("the bytes are not an ONNX model") from None
    return proto


def require_float(graph: Graph) -> Graph:
    """Return the graph if it is a float model.

    Raises:
        ModelError: The model is already quantized.
    """
    quantized = find_first_quantized_node(graph)
    if quantized is not None:
        raise ModelError(
            f"the model is already quantized (node {quantized.name}); give the float model, "
            "or use evaluate and verify on this one"
        )
    return graph


def find_first_quantized_node(graph: Graph) -> Node | None:
    """The first quantizer or QLinear operator; None in a float model."""
    return next(
        (node for node in graph.nodes if node.op_type in QUANTIZERS or "QLinear" in node.op_type),
        None,
    )


def is_quantized(graph: Graph) -> bool:
    """Whether the graph has a quantizer or an integer operator."""
    return any(_QUANTIZED.search(node.op_type) for node in graph.model.graph.all_nodes())


def require_quantized(graph: Graph) -> Graph:
    """Return the graph if it has a quantizer or an integer operator.

    Raises:
        ModelError: The model is a float model.
    """
    if is_quantized(graph):
        return graph
    raise ModelError("the model has no integer tensor; quantize it first")


def list_model_files(path: Path) -> list[Path]:
    """Path of the model file, and paths of the files that hold its weights.

    Only the model file is opened. A weight file that cannot be found stands where the model names it. If the file is
    not a model, only its own path is returned; reading it will raise.
    """
    try:
        if not path.is_file() or not _has_external_data(path):
            return [path]
        proto = onnx.load(path, load_external_data=False)
    except (OSError, ValueError, RuntimeError, DecodeError):
        return [path]
    stored = [
        entry.value
        for tensor in list_tensors(proto)
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    return [path, *dict.fromkeys(_get_weight_path(path, name) for name in dict.fromkeys(stored))]


def _get_weight_path(model: Path, location: str) -> Path:
    named = model.parent / location
    try:
        return named if os.path.exists(named) else find_weight_file(model, location)
    except ModelError:
        return named


def count_file_bytes(path: Path) -> int:
    """Bytes of the files of a model: the model file, and those of its weights.

    Raises:
        OSError: A file cannot be read.
    """
    return sum(file.stat().st_size for file in list_model_files(path))


def _has_external_data(path: Path) -> bool:
    """Whether a file may refer to others: searching 400 MB takes a tenth of the time of parsing them."""
    found = path.stat()
    return _has_location(path, (found.st_size, found.st_mtime_ns, found.st_ino))


@lru_cache(maxsize=8)
def _has_location(path: Path, stamp: tuple[int, ...]) -> bool:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"location") >= 0


def display_name(model: Model) -> str:
    """Name of the model in reports, which are passed on: a URL without user, password and query."""
    return remote.redact(model) if isinstance(model, (str, os.PathLike)) else "model in memory"


def get_source_path(model: Model) -> Path | None:
    """Absolute path of the file that a model is read from; None for a model in memory, or at a URL."""
    if not isinstance(model, (str, os.PathLike)) or remote.as_url(model) is not None:
        return None
    return Path(model).absolute()
