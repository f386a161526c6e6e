"""How does a model get into files? In one, or beyond protobuf's limit in one and its weights beside it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from ptq.core import files
from ptq.core.errors import PtqError
from ptq.model import external_data
from ptq.model.graph import Graph


def save(graph: Graph, path: Path) -> None:
    """Write a model; it appears complete or not at all, and no other file is touched.

    Weights of more than `ptq.model.external_data.MAX_PROTO_BYTES` bytes go before it into a file of their own beside it:
    ``PATH.data``, or with a number where that exists, since it may be another model's.

    Raises:
        PtqError: A file cannot be written.
    """
    if external_data.weight_bytes(graph.model) <= external_data.MAX_PROTO_BYTES:
        files.write(path, graph.to_bytes())
        return
    if path.exists() and not path.is_file():
        raise PtqError(f"{path} is no file, and over 2 GB of weights need one beside them")
    beside = _unused_data_path(path.resolve())
    data, pieces = external_data.serialize_with_weight_file(graph.model, beside.name)
    try:
        files.write(beside, pieces)
        files.write(path, data)
    except BaseException:
        if not _has_content(path, data):  # a signal may come when all is done
            beside.unlink(missing_ok=True)
        raise


def _has_content(path: Path, content: bytes) -> bool:
    """Whether that is what a file holds."""
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def _unused_data_path(path: Path) -> Path:
    """A name beside the model that no file has."""
    names = (f"{path.name}.{number}.data" if number else f"{path.name}.data" for number in count())
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())
