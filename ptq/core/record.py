"""Records: small JSON objects that travel with a model, with statistics and with a plan.

Equal records give equal text: keys are sorted, and there is no free space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]
"""A JSON object of plain values."""

MAX_TEXT = 1 << 20
"""Longest text of a record that is read. A record that ptq writes has a few kilobytes."""


def encode_record(record: Record) -> str:
    """The canonical JSON text of a record.

    Raises:
        ValueError: A number is infinite or undefined.
    """
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode_record(text: str) -> dict[str, Any]:
    """The record in a JSON text.

    Raises:
        ValueError: The text is not a JSON object, or is too long for a record.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"it has {len(text)} characters, more than {MAX_TEXT}")
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"it is of type {type(found).__name__}, not an object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is not a JSON number")
