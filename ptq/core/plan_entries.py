"""Entries of a plan's JSON document: each reader returns one, or refuses it and names its place.

In format 1 ``channel_factors`` is ``factors``, and ``boundaries`` is ``shores``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from ptq.core.errors import PlanError
from ptq.core.option_checks import find_similar
from ptq.core.types import QType, QuantParams

FORMAT = 2
_REPORT_KEYS = {"model", "evaluation"}
"""Keys of the JSON report of a quantization that no plan has."""
_KEYS = ("format", "target", "graph", "tensors", "operands", "folded", "clamps", "floats")
_OPTIONAL_KEYS = (
    "edges", "channel_factors", "boundaries", "rounding", "preprocess", "costs", "weights",
)  # fmt: skip
_KEYS_OF_FORMAT_1 = {"factors": "channel_factors", "shores": "boundaries"}
_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
_ENTRY_KEYS = ("scale", "zero_point", "type", "range", "axis", "why")


def read_document(text: str) -> dict[str, Any]:
    """The document of a plan with the keys of format 2; its values are not checked.

    Raises:
        PlanError: It is no plan, lacks a key, or has an unknown one.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(f"the plan is not JSON: {error}") from error
    except ValueError:  # an integer of more digits than Python reads
        raise PlanError("the plan holds a number of very many digits; create a new plan") from None
    except RecursionError:
        raise PlanError("the plan is nested too deeply to be a plan; create a new plan") from None
    if not isinstance(document, dict) or "format" not in document:
        is_report = isinstance(document, dict) and document.keys() >= _REPORT_KEYS
        kind = "a report, not a plan" if is_report else "JSON, but not a plan"
        raise PlanError(f"the file is {kind}: it has no 'format'; give a plan that ptq wrote")
    found = document["format"]
    if found not in (1, FORMAT):
        raise PlanError(
            f"the plan has format {found!r}, and formats 1 and 2 are read; create a new plan with this version"
        )
    if found == 1:
        document = {_KEYS_OF_FORMAT_1.get(key, key): value for key, value in document.items()}
    return read_keys("document", document, _KEYS, _OPTIONAL_KEYS)


def refuse_entry(where: str, what: str) -> NoReturn:
    """Raise a `PlanError` that names the place in the document."""
    raise PlanError(f"the plan's {where} {what}; see docs/plan.md")


def read_object(where: str, value: Any) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        refuse_entry(where, f"is {_show(value)}, not an object")
    return value


def read_keys(
    where: str, value: Any, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, Any]:
    """An object with all required keys, and no unknown one."""
    found, known = read_object(where, value), (*required, *optional)
    for key in found:
        if key not in known:
            similar = find_similar(key, known)
            hint = f"did you mean {similar!r}?" if similar else f"known are {', '.join(known)}"
            refuse_entry(where, f"has the unknown key {key!r} ({hint})")
    for key in required:
        if key not in found:
            refuse_entry(where, f"lacks {key!r}")
    return found


def read_list(where: str, value: Any, length: int | None = None) -> list[Any]:
    """A list, of so many entries if that is given."""
    if not isinstance(value, list) or length not in (None, len(value)):
        refuse_entry(
            where, f"is {_show(value)}, not a list{'' if length is None else f' of {length}'}"
        )
    return value


def read_text(where: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        refuse_entry(where, f"is {_show(value)}, not a text")
    return value


def read_texts(where: str, value: Any) -> dict[str, str]:
    """An object of texts."""
    return {key: read_text(f"{where} {key}", v) for key, v in read_object(where, value).items()}


def read_integer(where: str, value: Any) -> int:
    """A whole number that int64 holds."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        refuse_entry(where, f"is {_show(value)}, not a whole number")
    return value


def read_number(where: str, value: Any) -> float:
    """A finite number."""
    number = np.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer above the largest float64
            number = float(value)
    if not np.isfinite(number):
        refuse_entry(where, f"is {_show(value)}, not a finite number")
    return number


def name_operand(node: str, position: int) -> str:
    """The name of an operand in a plan: ``node[position]``."""
    return f"{node}[{position}]"


def read_operand_key(where: str, key: str) -> tuple[str, int]:
    """Node and input position of ``node[position]``."""
    node, bracket, position = key.removesuffix("]").rpartition("[")
    if not (key.endswith("]") and bracket and position.isascii() and position.isdigit()):
        refuse_entry(where, f"has the key {key!r}, not node[input position]")
    return node, read_integer(where, int(position))


def read_entry(where: str, value: Any) -> tuple[QuantParams, tuple[str, str]]:
    """Parameters of one tensor or operand, with kind and detail of their reason."""
    entry = read_keys(where, value, _ENTRY_KEYS)
    qtype = _read_type(where, entry)
    axis = entry["axis"]
    if axis is not None and read_integer(f"{where} axis", axis) < 0:
        refuse_entry(f"{where} axis", f"is {axis}; count from 0")
    scales = _map_list(read_number, f"{where} scale", entry["scale"])
    zero_points = _map_list(read_integer, f"{where} zero_point", entry["zero_point"])
    kind, detail = (
        read_text(f"{where} why", one) for one in read_list(f"{where} why", entry["why"], 2)
    )
    with np.errstate(over="ignore"):  # infinite as float32: refused below
        real = np.array(scales, np.float64).astype(np.float32)
    try:
        return QuantParams(real, np.array(zero_points, np.int64), qtype, axis), (kind, detail)
    except PlanError as error:
        raise PlanError(f"the plan's {where}: {error}") from error


def _read_type(where: str, entry: Mapping[str, Any]) -> QType:
    name = entry["type"]
    if name not in _TYPES:
        refuse_entry(f"{where} type", f"is {_show(name)}, which is not an integer type")
    bounds = read_list(f"{where} range", entry["range"], 2)
    lo, hi = (read_integer(f"{where} range", bound) for bound in bounds)
    dtype = np.dtype(name)
    qtype = QType(dtype.itemsize * 8, dtype.kind == "i", lo, hi)
    least, greatest = qtype.container
    if not least <= lo < hi <= greatest:
        refuse_entry(f"{where} range", f"is [{lo}, {hi}]; give two ascending integers of {name}")
    return qtype


def _map_list(read: Any, where: str, value: Any) -> Any:
    """One value, or a list of values."""
    return [read(where, one) for one in value] if isinstance(value, list) else read(where, value)


def _show(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer of more digits than Python prints
        return "a number of very many digits"
    return text if len(text) <= 40 else f"{text[:37]}..."


def to_shortest_decimals(scale: np.ndarray[Any, Any]) -> Any:
    """The shortest decimals that read back as the same float32."""
    flat = [float(str(s)) for s in np.atleast_1d(scale)]
    return flat if scale.ndim else flat[0]
