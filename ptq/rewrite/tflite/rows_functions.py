"""Functions of one value.

On integers LiteRT has some as operators. Every other one is a table of 256 entries, read by CAST, ADD and GATHER: the
same integers on every kernel. In float some are written by several operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.operations import CLAMPS, Operation, find_given_bounds
from ptq.rewrite.tflite.orders import order_naturally, permute_shape

_INTEGER_BUILTINS: Mapping[str, tuple[str, str | None]] = {
    "Abs": ("ABS", "AbsOptions"),
    "Exp": ("EXP", "ExpOptions"),
    "HardSwish": ("HARD_SWISH", "HardSwishOptions"),
    "Log": ("LOG", None),
    "Relu": ("RELU", None),
    "Sigmoid": ("LOGISTIC", None),
    "Sqrt": ("SQRT", None),
    "Tanh": ("TANH", None),
}
FLOAT_BUILTINS: Mapping[str, tuple[str, str | None]] = {
    **_INTEGER_BUILTINS,
    "Cos": ("COS", "CosOptions"),
    "Floor": ("FLOOR", None),
    "Neg": ("NEG", "NegOptions"),
    "Round": ("ROUND", None),
    "Sign": ("SIGN", "SignOptions"),
    "Sin": ("SIN", None),
    "Not": ("LOGICAL_NOT", "LogicalNotOptions"),
}
_BYTES = 256
_TABLE_BITS = 8


def write_function(e: Emitter, o: Operation) -> None:
    """A function of one value that is an operator, or a table."""
    builtin = (_INTEGER_BUILTINS if o.is_integer else FLOAT_BUILTINS).get(o.op)
    if builtin is None:
        write_table(e, o)
        return
    _apply(e, o, *builtin)


def _apply(e: Emitter, o: Operation, builtin: str, options: str | None, **fields: Any) -> None:
    x, y = str(o.inputs[0]), o.outputs[0]
    order = e.order(x) or order_naturally(e.rank(x))
    e.op(builtin, [e.read(x, order)], [e.write(y, order)], options, **fields)


def write_gelu(e: Emitter, o: Operation) -> None:
    """GELU."""
    by_tanh = o.attrs.get("approximate", "none") in ("tanh", b"tanh")
    _apply(e, o, "GELU", "GeluOptions", approximate=by_tanh)


def write_leaky_relu(e: Emitter, o: Operation) -> None:
    """LEAKY_RELU."""
    _apply(e, o, "LEAKY_RELU", "LeakyReluOptions", alpha=float(o.attrs.get("alpha", 0.01)))


def write_prelu(e: Emitter, o: Operation) -> None:
    """PRELU; its slopes have the axes of the input without the batch."""
    x, slope, y = str(o.inputs[0]), str(o.inputs[1]), o.outputs[0]
    order = e.order(x) or order_naturally(e.rank(x))
    if e.constant(slope) is not None and e.rank(slope) <= e.rank(x):
        array = e.constant(slope)
        assert array is not None
        full = array.reshape((1,) * (e.rank(x) - array.ndim) + array.shape).transpose(order)
        if full.shape[0] != 1:
            raise UnsupportedError(f"PRelu {o.name} has a slope for each sample; LiteRT has none")
        slopes = e.literal(full[0], slope, e.params(slope))
    else:
        raise UnsupportedError(f"PRelu {o.name} computes its slopes; LiteRT's are constants")
    e.op("PRELU", [e.read(x, order), slopes], [e.write(y, order)])


def write_clip(e: Emitter, o: Operation) -> None:
    """RELU, RELU6, RELU_N1_TO_1; MAXIMUM and MINIMUM for other bounds; a table where they change the scale."""
    x, y = str(o.inputs[0]), o.outputs[0]
    given = find_given_bounds(e.listed, o)
    if given is None:
        raise UnsupportedError(f"Clip {o.name} computes its bounds; LiteRT needs constants")
    lo, hi = _read_bound(e, x, given[0], -np.inf), _read_bound(e, x, given[1], np.inf)
    builtin = CLAMPS.get((lo, hi)) if e.dtype(x).kind == "f" or e.params(x) else None
    before, after = e.params(x), e.params(y)
    wide = after is not None and after.qtype.bits > _TABLE_BITS
    if builtin is not None and not (wide and builtin == "RELU_N1_TO_1"):  # only of 8 bits
        _apply(e, o, builtin, None)
        return
    if before != after:
        write_table(e, o)
        return
    order = e.order(x) or order_naturally(e.rank(x))
    tensor = e.read(x, order)
    bounds = [(name, v) for name, v in (("MAXIMUM", lo), ("MINIMUM", hi)) if np.isfinite(v)]
    if not bounds:
        e.alias(y, x, order)
        return
    for number, (name, bound) in enumerate(bounds, 1):
        content = np.asarray([bound], e.dtype(x) if after is None else np.float32)
        stored = content if after is None else clamp_bound(content, after)
        constant = e.literal(stored, f"{y}_bound", after)
        last = number == len(bounds)
        shape, signature = (permute_shape(s, order) for s in (e.shape(y), e.signature(y)))
        result = (
            e.write(y, order)
            if last
            else e.temporary(f"{y}_{number}", shape, e.dtype(y), after, signature=signature)
        )
        e.op(name, [tensor, constant], [result], "MaximumMinimumOptions")
        tensor = result


def clamp_bound(bound: np.ndarray[Any, Any], params: QuantParams) -> np.ndarray[Any, Any]:
    """A bound as LiteRT quantizes it: zero point plus the float32 quotient, ties away from zero."""
    quotient = np.float32(bound) / params.scale
    whole = np.sign(quotient) * np.floor(np.abs(quotient) + np.float32(0.5))
    q = np.clip(whole + params.zero_point, params.qtype.lo, params.qtype.hi)
    return np.asarray(q, params.qtype.dtype)


def _read_bound(e: Emitter, x: str, given: Any, absent: float) -> float:
    """A bound of a Clip, as an int for integers: beyond 2^53 a float rounds them.

    ``absent`` stands for a bound that is not given, or is the limit of the type.
    """
    if given is None:
        return absent
    if e.params(x) is not None or e.dtype(x).kind == "f":
        real = float(given)
        return absent if real == np.copysign(np.finfo(np.float32).max, absent) else real
    info, bound = np.iinfo(e.dtype(x)), int(given)
    return absent if bound == (info.min if absent < 0 else info.max) else bound


def write_table(e: Emitter, o: Operation) -> None:
    """A table of 256 entries: CAST to int32, ADD 128, GATHER."""
    x, y = str(o.inputs[0]), o.outputs[0]
    before, after = e.params(x), e.params(y)
    order = e.order(x) or order_naturally(e.rank(x))
    if e.make_table is None:  # a rehearsal in float of what will be a table
        e.op("ABS", [e.read(x, order)], [e.write(y, order)], "AbsOptions")
        return
    if before is None or after is None:
        raise UnsupportedError(
            f"{o.op} {o.name} has no float operator in LiteRT, and its neighbours are float"
        )
    if before.qtype.bits > _TABLE_BITS:
        raise UnsupportedError(
            f"{o.op} {o.name} changes the scale of 16-bit integers in a way that LiteRT does not; leave it float"
        )
    shape, signature = (permute_shape(s, order) for s in (e.shape(x), e.signature(x)))
    wide, positions = (
        e.temporary(f"{y}_{what}", shape, np.dtype(np.int32), signature=signature)
        for what in ("wide", "positions")
    )
    e.op("CAST", [e.read(x, order)], [wide], "CastOptions")
    offset = e.literal(np.asarray(_BYTES // 2, np.int32), f"{y}_offset")
    e.op("ADD", [wide, offset], [positions], "AddOptions", fusedActivationFunction=0)
    entries = e.literal(e.make_table(o, before, after), f"{y}_table", after)
    e.op("GATHER", [entries, positions], [e.write(y, order)], "GatherOptions", axis=0, batchDims=0)
