"""What every JSON document says about the run, and the document of an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = 1
"""Increased when a key is removed or changes its meaning; new keys do not change it."""


@dataclass(frozen=True)
class Header:
    """What every document says about the run.

    Attributes:
        schema_version: Version of the document's form; absent in documents from before version 1.
        ptq_version: Version of ptq.
        command: Name of the command.
        options: Every option and argument with a value, by its long name, defaults included; not ``json`` itself.
        digests: ``sha256:`` and the digest of the main output and of each file that is read, by the option's name.
            ``model/NAME`` is a file of weights. Folders have none.
        output: The main file that the command wrote; null if it writes none.
        warnings: What a reader must know before any figure, the most serious first.
    """

    schema_version: int = SCHEMA_VERSION
    ptq_version: str = ""
    command: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    output: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErrorBody:
    """Why a command failed.

    Attributes:
        kind: ``usage``, ``model``, ``unsupported``, ``data``, ``plan``, ``stats``, ``no_gain`` (larger and slower
            than float), ``memory``, ``internal``, or ``other`` (for example a file that cannot be written).
        message: The text on standard error, without ``error:``.
        exit_code: The exit code of the process.
    """

    kind: str
    message: str
    exit_code: int


@dataclass(frozen=True)
class ErrorDocument:
    """The document of a command that failed.

    Attributes:
        schema_version: Version of the document's form.
        ptq_version: Version of ptq.
        command: Name of the command; empty if the command line names none.
        error: Why it failed.
    """

    schema_version: int
    ptq_version: str
    command: str
    error: ErrorBody
