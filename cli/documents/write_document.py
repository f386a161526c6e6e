"""JSON documents of the commands: a header, the result, and errors."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptq.core.json_text import format_json
from ptq.core.remote import redact

from ..invocation import get_current_invocation
from ..outputs import list_weight_files, write_json
from .document_header import SCHEMA_VERSION, ErrorBody, ErrorDocument, Header

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_PIECE = 2**20
"""Bytes of a file that are read at once."""


def write_document(
    place: str | None,
    result: DataclassInstance | Sequence[DataclassInstance],
    *,
    output: Path | None = None,
    **more: object,
) -> bool:
    """Write a result of ptq as JSON; return whether it went to standard output.

    Args:
        place: A file, ``-`` for standard output, or None for nothing.
        result: A dataclass. A sequence of rows becomes an array, without a header.
        output: The main file that the command wrote.
        more: Further entries.

    Raises:
        PtqError: The file cannot be written.
    """
    if place is None:
        return False
    if isinstance(result, Sequence):
        return write_json(format_json([asdict(row) for row in result]), place)
    further = {k: asdict(v) if is_dataclass(v) else v for k, v in more.items()}  # type: ignore[arg-type]
    document = {
        **asdict(_build_header(output, getattr(result, "warnings", ()))),
        **asdict(result),
        **further,
    }
    return write_json(format_json(document), place)


def format_error_json(kind: str, message: str, exit_code: int, command: str) -> str:
    """Write an error as JSON text; ``command`` is named where no command has started."""
    body = ErrorBody(kind, message, exit_code)
    command = get_current_invocation().command or command
    return format_json(asdict(ErrorDocument(SCHEMA_VERSION, version("onnx-ptq"), command, body)))


def _build_header(output: Path | None, warnings: tuple[str, ...]) -> Header:
    invocation = get_current_invocation()
    return Header(
        ptq_version=version("onnx-ptq"),
        command=invocation.command,
        options={name: _redact_all(value) for name, value in invocation.options.items()},
        digests=digest_inputs(output),
        output=None if output is None else redact(output),
        warnings=warnings,
    )


def _redact_all(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_redact_all(item) for item in value]
    return redact(value) if isinstance(value, (str, Path)) else value


def digest_inputs(output: Path | None) -> dict[str, str]:
    """Digest of each file that the running command reads by an option, and of its output."""
    invocation = get_current_invocation()
    named = {name: invocation.options[name] for name in sorted(invocation.files)}
    if output is not None:
        named["output"] = output
    return _digest_files(named)


def _digest_files(options: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each regular file that an option names, and of the files of its weights."""
    digests: dict[str, str] = {}
    for name, value in options.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        paths = [Path(v) for v in values if os.path.isfile(v)]
        for index, path in enumerate(paths):
            key = name if len(paths) == 1 else f"{name}/{index}"
            digests[key] = _digest(path)
            for further in list_weight_files(path):
                if further.is_file():
                    digests[f"{key}/{further.name}"] = _digest(further)
    return digests


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return f"sha256:{digest.hexdigest()}"
