"""JSON text of documents."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def format_json(document: Any) -> str:
    """Indented JSON text, with null for infinite and undefined numbers; entries that hold bytes are left out."""
    return indent_json(_replace_non_finite(document)) + "\n"


def indent_json(value: Any, line: str = "\n") -> str:
    """The text of ``json.dumps(value, indent=1)``, several times as fast.

    The fast encoder of the standard library does not indent. Here it encodes the innermost lists and mappings, with
    the break of their lines as a part of the separator.

    Args:
        value: Lists, tuples and dictionaries with texts as keys, of plain values.
        line: The break of a line, with the indentation of the value.
    """
    if not value or type(value) not in (dict, list, tuple):
        return json.dumps(value)
    inner = line + " "
    named = type(value) is dict
    if {dict, list, tuple}.isdisjoint(map(type, value.values() if named else value)):
        text = json.dumps(value, separators=(f",{inner}", ": "))
        return f"{text[0]}{inner}{text[1:-1]}{line}{text[-1]}"
    if named:
        entries = (f"{json.dumps(k)}: {indent_json(v, inner)}" for k, v in value.items())
    else:
        entries = (indent_json(v, inner) for v in value)
    start, end = "{}" if named else "[]"
    return f"{start}{inner}{f',{inner}'.join(entries)}{line}{end}"


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(k): _replace_non_finite(v) for k, v in value.items() if not isinstance(v, bytes)
        }
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
