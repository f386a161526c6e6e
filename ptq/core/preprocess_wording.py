"""One line about a preprocessing, for the reports of every format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_preprocessing(applied: Mapping[str, Any]) -> str:
    """Preprocessing of images, audio or text, in the order in which it was applied."""
    kind = next((kind for option, kind in _KINDS.items() if option in applied), "images")
    return f"{kind}: " + ", ".join(_describe_operation(name, applied) for name in applied)


def describe_sample_source(applied: Mapping[str, Any]) -> str:
    """The same, also of arrays, to which nothing was applied."""
    return describe_preprocessing(applied) if applied else "arrays, fed as given"


_KINDS = {"sample_rate": "audio", "tokenizer_sha256": "text"}
"""An option that only one kind of samples has, and the kind."""


def _describe_operation(name: str, applied: Mapping[str, Any]) -> str:
    value = applied[name]
    if name == "sample_rate":
        return f"mono, {value} Hz"
    if name == "tokenizer_sha256":
        return f"tokenizer {value[:12]}…"
    if name == "length":
        return f"{value} {'tokens' if 'tokenizer_sha256' in applied else 'values'}"
    if name == "length_rule":
        return f"length {value}" if value == "unchanged" else str(value)
    if name == "size" and "letterbox" in applied:
        return f"fitted into {value[0]}×{value[1]}"
    if name == "letterbox":
        return f"borders of gray {value}"
    if name in ("size", "crop"):
        return f"{'resized to' if name == 'size' else 'centre cropped to'} {value[0]}×{value[1]}"
    if name == "resize":
        return f"shorter side resized to {value}"
    if name == "crop_rounding":
        return f"odd surplus halved {'down' if value == 'down' else 'to even'}"
    if name == "scale":
        return "× 1/255" if value == 1 / 255 else f"× {value:g}"
    if name in ("mean", "std"):
        return f"{'−' if name == 'mean' else '÷'} ({', '.join(f'{v:g}' for v in value)})"
    return str(value)
