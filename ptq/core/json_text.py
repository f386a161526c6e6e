"""JSON text of documents."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dump_json(document: Any) -> str:
    """Indented JSON text, with null for infinite and undefined numbers; entries that hold bytes are left out."""
    return json.dumps(_replace_non_finite(document), indent=1) + "\n"


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
