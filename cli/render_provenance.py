"""How a quantized model was made, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from .screen import format_heading, format_paragraph

if TYPE_CHECKING:
    from ptq.core.record import Record


def render_provenance(record: Record | None) -> Iterator[RenderableType]:
    """Each entry of the record `ptq.provenance`, in the order of its keys; nothing without a record."""
    if record is None:
        return
    tool = " ".join(str(record[key]) for key in ("tool", "version") if key in record)
    yield format_heading(f"Made by {tool or 'an unknown tool'}")
    for key, value in sorted(record.items()):
        if key not in ("tool", "version") and value not in (None, [], {}):
            yield format_paragraph(f"{_words(key)}: {_format(value)}")


def _words(key: str) -> str:
    return key.replace("_", " ")


def _format(value: Any) -> str:
    """A value in one line; entries of an object as ``name value``."""
    if isinstance(value, dict):
        entries = ((k, v) for k, v in sorted(value.items()) if v not in (None, []))
        return ", ".join(f"{_words(str(k))} {_format(v)}" for k, v in entries)
    if isinstance(value, list):
        return ", ".join(map(_format, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
