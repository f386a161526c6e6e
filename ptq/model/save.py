"""Saving of a model to one file, or above protobuf's limit to a model file and a weight file."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from ptq.core import files, remote
from ptq.core.errors import PtqError, UsageError
from ptq.model.graph import Graph
from ptq.model.open import list_model_files
from ptq.model.proto import external_data, serialize


def save_apart(graph: Graph, path: Path, source: Path | None) -> None:
    """Run `save`, but never over the model that the graph was made from.

    Raises:
        UsageError: The path is a file of that model or of its weights.
        PtqError: A file cannot be written.
    """
    _refuse_source(path, source)
    save(graph, path)


def write_apart(content: bytes, path: Path, source: Path | None) -> None:
    """Write a file atomically, but never over the model that it was made from.

    Raises:
        UsageError: The path is a file of that model or of its weights.
        PtqError: The file cannot be written.
    """
    _refuse_source(path, source)
    files.write(path, content)


def _refuse_source(path: Path, source: Path | None) -> None:
    if source is not None and os.path.exists(
        path
    ):  # unlike the method, it takes names that are too long
        for file in list_model_files(source):
            if files.is_same_file(path, file):
                raise UsageError(f"output {path} is the input {file} itself; give another name")


def save(graph: Graph, path: Path) -> None:
    """Write a model atomically: the file appears complete or not at all. No existing file is changed but ``path``.

    If the weights exceed `external_data.MAX_PROTO_BYTES`, they are first written to a second file in the same folder:
    ``PATH.data``, or ``PATH.1.data`` etc. if that exists, because it may belong to another model.

    Raises:
        PtqError: A file cannot be written.
    """
    if external_data.count_weight_bytes(graph.model) <= external_data.MAX_PROTO_BYTES:
        files.write(path, serialize.to_pieces(graph.model))
        return
    if remote.as_url(path) is not None:
        raise PtqError(
            f"{remote.redact(path)}: a model over 2 GB needs a second file; write it to a folder, and copy both"
        )
    if path.exists() and not path.is_file():
        raise PtqError(
            f"{path} is not a regular file; models over 2 GB need a second file next to the model"
        )
    weight_path = _find_unused_data_path(path.resolve())
    data, pieces = serialize.serialize_with_weight_file(graph.model, weight_path.name)
    try:
        files.write(weight_path, pieces)
        files.write(path, data)
    except BaseException:
        if not _has_content(path, data):  # a signal may arrive after the last write
            weight_path.unlink(missing_ok=True)
        raise


def _has_content(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def _find_unused_data_path(path: Path) -> Path:
    """A path for the weight file at which no file exists."""
    names = (f"{path.name}.{number}.data" if number else f"{path.name}.data" for number in count())
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())
