"""The records of ptq in the metadata of an ONNX model: how samples were prepared, and how the model was made.

Each record is one entry of ``metadata_props`` with canonical JSON as its value. Other entries stay as they are.
"""

from __future__ import annotations

from typing import Any, Protocol

from ptq.core.errors import ModelError
from ptq.core.record import Record, decode_record, encode_record

PREPROCESS = "ptq.preprocess"
"""How samples became arrays; see `ptq.data.preprocessing.recorded_preprocess`."""
PROVENANCE = "ptq.provenance"
"""How the model was made; see `ptq.api.provenance`."""


class Described(Protocol):
    """A model with metadata: what these functions read of a `ptq.model.graph.Graph`."""

    target: str

    @property
    def metadata(self) -> dict[str, str]:
        """The entries of ``metadata_props``, writable."""


def write_record(graph: Described, key: str, record: Record) -> None:
    """Write a record under a key of the model's metadata; an older one is replaced."""
    graph.metadata[key] = encode_record(record)


def read_record(graph: Described, key: str) -> dict[str, Any] | None:
    """The record under a key of the model's metadata; None without one.

    Raises:
        ModelError: The entry is not a record.
    """
    text = graph.metadata.get(key)
    if text is None:
        return None
    try:
        return decode_record(text)
    except ValueError as error:
        raise ModelError(
            f"the entry {key} of the model's metadata is not a record: {error}; remove the entry"
        ) from error


def read_target(graph: Described) -> str:
    """The target that a model was quantized for, by itself or its records; empty if they name none."""
    if graph.target:
        return graph.target
    try:
        record = read_record(graph, PROVENANCE) or {}
    except ModelError:
        return ""
    options = record.get("options")
    target = options.get("target") if isinstance(options, dict) else None
    return target if isinstance(target, str) else ""
