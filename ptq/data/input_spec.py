"""What a model input takes, and whether an array fits it.

Shape: the rank is the same, and every fixed dimension is equal. Type: floats are cast to the model's float type.
Integers and booleans are cast to its integer type if the values fit. Integers are not cast to float, because integers
for a float input are most often unscaled images. NaN and +inf are refused; -inf is allowed, because attention masks
use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError

MAX_SAMPLE_BYTES = 2**31
"""Largest sample. A larger one counts as a damaged or hostile file; a 512³ float32 volume is a quarter of it."""

_CASTS = {"f": "f", "b": "biu", "i": "iu", "u": "iu", "c": "c"}


@dataclass(frozen=True)
class InputSpec:
    """One input of the model.

    Attributes:
        name: Name of the input.
        dtype: Element type.
        shape: Shape, with None for each dynamic dimension.
        may_hold_nan: Whether the model handles NaN in this input.
        pixel_scale: Factor for pixels of 0 … 255 if the model normalizes images itself; None if it does not
            determine it.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    may_hold_nan: bool = False
    pixel_scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        object.__setattr__(self, "shape", tuple(self.shape))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if d is None else str(d) for d in self.shape)}]"


_CHANNEL_COUNTS = (1, 2, 3, 4)
"""Channels of images; an axis of another length is not taken for that of the channels."""
_NUMERIC_KINDS = "biufcV"
"""Kinds of numpy types that hold numbers; V is the kind of bfloat16 in a file."""


def check_header(spec: InputSpec, shape: Sequence[int], dtype: np.dtype[Any], where: str) -> None:
    """Check shape and type of an array, without its values; raise DataError if it does not fit the input."""
    if dtype.kind not in _NUMERIC_KINDS:
        raise DataError(f"{where}: input {spec.name!r} is of type {dtype}; the model takes {spec}")
    if len(shape) != len(spec.shape) or any(
        want is not None and want != got for want, got in zip(spec.shape, shape, strict=True)
    ):
        raise DataError(
            f"{where}: input {spec.name!r} has shape {list(shape)}; the model takes {spec}"
            f"{_suggest_preprocessing(spec, dtype) or _suggest_transpose(spec, shape)}"
        )
    if dtype.newbyteorder("=") != spec.dtype and spec.dtype.kind not in _CASTS.get(dtype.kind, ""):
        raise DataError(
            f"{where}: input {spec.name!r} is of type {dtype}; the model takes {spec}; "
            f"convert it (and scale it as in training) before saving{_suggest_preprocessing(spec, dtype)}"
        )
    if len(shape) > 1 and shape[0] == 0:
        raise DataError(
            f"{where}: input {spec.name!r} of shape {list(shape)} is empty; remove the sample"
        )
    size = dtype.itemsize
    for d in shape:
        size *= d
    if size > MAX_SAMPLE_BYTES:
        raise DataError(
            f"{where}: input {spec.name!r} of shape {list(shape)} is too large: "
            f"a sample may have at most {MAX_SAMPLE_BYTES >> 30} GiB"
        )


def _suggest_preprocessing(spec: InputSpec, dtype: np.dtype[Any]) -> str:
    """Advice for uint8 arrays that may be images; empty for any other array."""
    if dtype != np.uint8 or spec.dtype.kind != "f" or len(spec.shape) not in (3, 4):
        return ""
    return "; if these are uint8 pixels, give preprocessing options (`scale`, `mean`, `std`) that prepare them"


def _suggest_transpose(spec: InputSpec, shape: Sequence[int]) -> str:
    """Advice for images whose channels stand at the other end; empty for any other shape."""
    if len(spec.shape) != 4 or len(shape) != 4:
        return ""
    for have, want, axes in (("NHWC", "NCHW", (0, 3, 1, 2)), ("NCHW", "NHWC", (0, 2, 3, 1))):
        channels = spec.shape[1 if want == "NCHW" else 3]
        moved = [shape[axis] for axis in axes]
        if channels in _CHANNEL_COUNTS and all(
            fixed in (None, got) for fixed, got in zip(spec.shape, moved, strict=True)
        ):
            turn = ", ".join(map(str, axes))
            return f"; it looks like {have} for {want}: transpose the arrays by ({turn})"
    return ""


def cast_to_input(spec: InputSpec, array: NDArray[Any], where: str) -> NDArray[Any]:
    """The array in the input's type and in C order, cast if that is safe. Sums of floats depend on the order.

    Raises:
        DataError: The shape or kind does not fit, the array is empty, the input's type cannot represent a value,
            or a value is NaN or +inf.
    """
    check_header(spec, array.shape, array.dtype, where)
    if array.dtype.kind == "f" and not spec.may_hold_nan and array.size:
        largest = array.max()  # NaN if the array contains NaN
        if not largest < np.inf:
            what = "NaN" if np.isnan(largest) else "+inf"
            raise DataError(
                f"{where}: input {spec.name!r} contains {what}; repair or remove the sample"
            )
    if array.dtype == spec.dtype:
        return np.asarray(array, order="C")
    if array.size and array.dtype.kind in "iu" and spec.dtype.kind in "iu":
        limits = np.iinfo(spec.dtype)
        lo, hi = int(array.min()), int(array.max())
        if lo < limits.min or hi > limits.max:
            raise DataError(
                f"{where}: input {spec.name!r} contains {lo if lo < limits.min else hi}, "
                f"which the model's {spec.dtype} cannot represent"
            )
    with np.errstate(over="ignore"):
        cast = array.astype(spec.dtype, order="C")
    if spec.dtype.kind == "f" and not np.array_equal(np.isinf(cast), np.isinf(array)):
        raise DataError(
            f"{where}: input {spec.name!r} contains values "
            f"that the model's {spec.dtype} cannot represent"
        )
    return cast


_OF_STATISTICS = frozenset(["format", "graph", "names", "samples"])
"""Some arrays of every file of statistics."""
_MAX_LISTED = 8
"""Array names that a message lists."""
_LABEL_NAMES = ("y", "label", "target", "targets", "class", "classes", "y_train", "y_test", "y_val")
"""Names that other tools give the array of labels."""


_OPERAND = re.compile(r"/[A-Z]\w*/[xy](:\d+)?$")
"""End of the name that TensorFlow gives a constant operand of an operator, such as ``normalization/Sub/y:0``."""
_LEFT_CONSTANTS = (
    "the exporter left constants of a layer as inputs (such as mean and variance of a Normalization): make them "
    "initializers of the model"
)


def explain_left_constants(inputs: Sequence[InputSpec]) -> str:
    """What to do if an input is named as a constant operand and has a fixed shape; empty without one."""
    names = [spec.name for spec in inputs if None not in spec.shape]
    return _LEFT_CONSTANTS if any(map(_OPERAND.search, names)) else ""


def match_keys(
    keys: Sequence[str], inputs: Sequence[InputSpec], where: str
) -> tuple[Mapping[str, str], str | None]:
    """Array name for each input, and the name of the array of labels (None if there is none).

    Arrays must be named as the model's inputs, plus an optional ``labels``. An array that was saved without a name
    (``arr_0``) feeds the only input.

    Raises:
        DataError: Names are missing or unexpected; the message lists the first of them.
    """
    names = [spec.name for spec in inputs]
    labels = "labels" if "labels" in keys and "labels" not in names else None
    arrays = [key for key in keys if key != labels]
    if len(names) == 1 and arrays == ["arr_0"]:
        return {names[0]: "arr_0"}, labels
    missing = [name for name in names if name not in arrays]
    extra = [key for key in arrays if key not in names]
    if _OF_STATISTICS.issubset(extra):
        raise DataError(f"{where}: these are statistics of ptq, not samples; give them as `stats`")
    if missing or extra:
        faults = [
            f"{word} {_list_first(wrong)}"
            for word, wrong in (("missing", missing), ("unexpected", extra))
            if wrong
        ]
        advice = ""
        if not missing and len(extra) == 1 and extra[0].lower() in _LABEL_NAMES:
            advice = f"; if {extra[0]!r} holds the class numbers, rename it to 'labels'"
        left = explain_left_constants([spec for spec in inputs if spec.name in missing])
        advice = f"; {left}" if left else advice
        if not names:
            raise DataError(f"{where}: the model has no inputs to feed")
        raise DataError(
            f"{where}: arrays must be named as the model's inputs, "
            f"{', '.join(map(repr, names))}, plus 'labels' if any: {'; '.join(faults)}{advice}"
        )
    return {name: name for name in names}, labels


def _list_first(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MAX_LISTED]))
    rest = len(names) - _MAX_LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown
