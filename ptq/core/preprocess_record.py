"""The record of a preprocessing, as statistics, plans and quantized models carry it, and the comparison of two.

``{"source": "feeds"}`` says that arrays were fed as given. ``{"source": "images", …}`` holds each option of the
complete `ptq.data.Preprocess` under its name. ``assumed`` is there if scale, mean and std were assumed, and says so.
``{"source": "audio", …}`` and ``{"source": "text", …}`` hold those of `ptq.data.AudioPreprocess` and
`ptq.data.TextPreprocess`, and ``length_rule``: what happens to samples of another length. No record holds a path.
"""

from __future__ import annotations

from typing import Any

from ptq.core.record import Record

FEEDS: Record = {"source": "feeds"}
"""The record of arrays, which are fed as given."""

_ABSENT: Record = {"mean": 0.0, "std": 1.0, "crop_rounding": "even"}
"""The values that a missing option stands for."""
_SOURCES = {"feeds": "arrays, fed as given,", "images": "images", "audio": "audio", "text": "text"}


def describe_differences(record: Record, other: Record) -> str:
    """How a preprocessing differs from another one: ``mean 0.5 instead of 0.286``; empty if they are equal.

    What was assumed is not compared, but the values that follow from it.
    """
    ours, theirs = (_SOURCES.get(str(r.get("source")), "other samples") for r in (record, other))
    if ours != theirs:
        return f"{ours} instead of {theirs.removesuffix(',')}"
    return ", ".join(
        f"{name} {_format(name, record)} instead of {_format(name, other)}"
        for name in dict.fromkeys([*record, *other])
        if name != "assumed" and _get_comparable(name, record) != _get_comparable(name, other)
    )


def _get_comparable(name: str, record: Record) -> Any:
    """A value in the form in which equal preprocessings have equal values: one number for equal channels."""
    value = record.get(name, _ABSENT.get(name))
    if name in _ABSENT and isinstance(value, list) and len(set(map(str, value))) == 1:
        return value[0]
    return value


def _format(name: str, record: Record) -> str:
    value = _get_comparable(name, record)
    if value is None:
        return "none"
    if isinstance(value, list):
        return ("×" if name in ("size", "crop") else ",").join(map(_format_item, value))
    return _format_item(value)


def _format_item(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
