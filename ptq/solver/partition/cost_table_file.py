"""A table of times as a file, which ``ptq tune`` writes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ptq.core import files
from ptq.core.errors import UsageError
from ptq.core.option_checks import require_path
from ptq.core.record import decode_record
from ptq.solver.partition.cost_table import OrtCostTable, use_cost_table

FORMAT = 1
_MOST_BYTES, _MOST_PASSES = 2**20, 1e15
P = ParamSpec("P")
T = TypeVar("T")
_TEXTS = ("name", "version", "processor")


def save_cost_table(table: OrtCostTable, path: str | os.PathLike[str]) -> None:
    """Write a table atomically, as JSON.

    Raises:
        PtqError: The file cannot be written.
    """
    document = {"format": FORMAT, **asdict(table)}
    files.write(Path(path), (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())


def load_cost_table(path: str | os.PathLike[str]) -> OrtCostTable:
    """Read a table.

    Raises:
        UsageError: The file cannot be read, or is no table of times.
    """
    advice = "give a table that ptq tune wrote"
    try:
        text = files.read(Path(path), _MOST_BYTES).decode()
        document = decode_record(text)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise UsageError(f"{path}: {reason}; {advice}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: no table of times (it is not text); {advice}") from None
    except ValueError as error:
        raise UsageError(f"{path}: no table of times ({error}); {advice}") from None
    if document.pop("format", None) != FORMAT:
        raise UsageError(f"{path}: no table of times of format {FORMAT}; {advice}")
    try:
        return _read_entries(document)
    except ValueError as error:
        raise UsageError(f"{path}: {error}; {advice}") from None


def _read_entries(document: dict[str, Any]) -> OrtCostTable:
    names = {field.name for field in fields(OrtCostTable)}
    document.setdefault("scales", {})  # tables of before have none
    if wrong := sorted(names ^ document.keys()):
        raise ValueError(f"entry {wrong[0]!r} is missing or unknown")
    pairs = {name: document.pop(name) for name in ("kernels", "scales")}
    for name, value in document.items():
        expected = name in _TEXTS
        if isinstance(value, str) != expected or not (expected or _is_time(value)):
            raise ValueError(f"entry {name!r} is {value!r}")
    kernels, scales = (_read_pairs(name, entries) for name, entries in pairs.items())
    return OrtCostTable(**document, kernels=kernels, scales=scales)


def _read_pairs(name: str, entries: Any) -> dict[str, tuple[float, float]]:
    if not isinstance(entries, dict):
        raise ValueError(f"entry {name!r} is no object")
    for key, pair in entries.items():
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_time, pair)):
            raise ValueError(f"the times of {key!r} are {pair!r}, not two numbers")
    return {key: (float(one), float(other)) for key, (one, other) in entries.items()}


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MOST_PASSES
    )


def decide_by_given_table(verb: Callable[P, T]) -> Callable[P, T]:
    """Let the table that the keyword ``cost_table`` gives decide while the verb runs.

    Raises:
        UsageError: It is neither a table nor the file of one.
    """

    @wraps(verb)
    def decided(*args: P.args, **kwargs: P.kwargs) -> T:
        with use_cost_table(_open_cost_table(kwargs.get("cost_table"))):
            return verb(*args, **kwargs)

    return decided


def _open_cost_table(given: object) -> OrtCostTable | None:
    if given is None or isinstance(given, OrtCostTable):
        return given
    require_path("cost_table", given)
    return load_cost_table(given)  # type: ignore[arg-type] # a path
