"""How a quantized model was made, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from ptq.core.wording import plural
from ptq.evaluation.drop import Drop, describe_drop

from .screen import format_heading, format_paragraph

if TYPE_CHECKING:
    from ptq.core.record import Record

_DIGEST_DIGITS = 16
"""Hexadecimal digits of a digest that are shown; --json has all."""
_SHOWN_ELSEWHERE = ("tool", "version", "float_nodes")


def render_provenance(record: Record | None) -> Iterator[RenderableType]:
    """Each entry of the record `ptq.provenance`, in the order of its keys; nothing without a record."""
    if record is None:
        return
    tool = " ".join(str(record[key]) for key in ("tool", "version") if key in record)
    yield format_heading(f"Made by {tool or 'an unknown tool'}")
    for key, value in sorted(record.items()):
        if key not in _SHOWN_ELSEWHERE and value not in (None, [], {}):
            yield format_paragraph(_DESCRIBERS.get(key, _describe_entry)(key, value))


def _describe_drop(key: str, value: Any) -> str:
    """What was measured, on which and how many samples, with its interval."""
    try:
        names = {field.name for field in fields(Drop)}
        drop = Drop(**{name: figure for name, figure in value.items() if name in names})
        text, count = describe_drop(drop), plural(int(drop.samples), "sample")
    except (AttributeError, TypeError, ValueError):  # the record is of another version or tool
        return _describe_entry(key, value)
    prepared = value.get("preprocess")
    differs = f"; these samples were prepared otherwise: {_format(prepared)}" if prepared else ""
    return f"measured {value.get('measured') or 'on evaluation samples'} ({count}): {text}{differs}"


def _describe_digests(key: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return _describe_entry(key, value)
    known = {name: str(digest) for name, digest in sorted(value.items()) if digest}
    shown = (f"{_to_words(name)} {digest[:_DIGEST_DIGITS]}…" for name, digest in known.items())
    return f"SHA-256: {', '.join(shown)}"


def _describe_processor(key: str, value: Any) -> str:
    if not isinstance(value, Mapping) or not isinstance(value.get("exact_int8_sums"), bool):
        return _describe_entry(key, value)
    sums = "are exact" if value["exact_int8_sums"] else "may saturate"
    return f"processor: {value.get('machine')}, sums of int8 products {sums}"


def _describe_inputs(key: str, value: Any) -> str:
    """The quantiles of each input at 0, 25, 50, 75 and 100 % of its values."""
    from ptq.observers.input_quantiles import LEVELS

    if not isinstance(value, Mapping) or not all(
        isinstance(some, list) and len(some) == len(LEVELS) for some in value.values()
    ):
        return _describe_entry(key, value)
    step = len(LEVELS) // 4
    shown = (f"{name} {', '.join(map(str, some[::step]))}" for name, some in sorted(value.items()))
    return f"{_to_words(key)}, their values at 0, 25, 50, 75 and 100 %: {'; '.join(shown)}"


def _describe_entry(key: str, value: Any) -> str:
    return f"{_to_words(key)}: {_format(value)}"


_DESCRIBERS = {
    "calibration_inputs": _describe_inputs,
    "drop": _describe_drop,
    "digests": _describe_digests,
    "processor": _describe_processor,
}


def _to_words(key: str) -> str:
    return key.replace("_", " ")


def _format(value: Any) -> str:
    """A value in one line; entries of an object as ``name value``."""
    if isinstance(value, dict):
        entries = ((k, v) for k, v in sorted(value.items()) if v not in (None, []))
        return ", ".join(f"{_to_words(str(k))} {_format(v)}" for k, v in entries)
    if isinstance(value, list):
        return ", ".join(map(_format, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
