"""Does an array fit a model's input?

Shape: the same rank, and every fixed dimension equal. Type: floats are cast to the model's float
type, integers (and booleans) to its integer type where the values fit; nothing crosses from one
kind to the other, since integers given to a float input are most often images that nobody has
scaled. NaN and +inf are refused; -inf passes, because attention masks are made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError

# One sample beyond this is taken for a damaged or hostile file: a 512³ float32 volume is a quarter
# of it.
MAX_SAMPLE_BYTES = 2**31

_CASTS = {"f": "f", "b": "biu", "i": "iu", "u": "iu", "c": "c", "U": "UO", "O": ""}


@dataclass(frozen=True)
class InputSpec:
    """One input of the model.

    Attributes:
        name: Its name.
        dtype: Its element type.
        shape: Its shape, None where it is dynamic.
        may_hold_nan: The model makes something of NaN there.
        pixel_scale: What the model wants pixels of 0 … 255 multiplied by, where it normalizes images by itself;
            None where it does not say.
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


_NUMERIC_KINDS = "biufcV"
"""Kinds of numpy's types that hold numbers; V is that of bfloat16 in a file."""


def check_header(spec: InputSpec, shape: Sequence[int], dtype: np.dtype[Any], where: str) -> None:
    """Raise DataError where an array of that shape and type cannot be fed; needs no values."""
    if dtype.kind not in _NUMERIC_KINDS:
        raise DataError(f"{where}: input {spec.name!r} is of type {dtype}; the model takes {spec}")
    if len(shape) != len(spec.shape) or any(
        want is not None and want != got for want, got in zip(spec.shape, shape, strict=True)
    ):
        raise DataError(
            f"{where}: input {spec.name!r} has shape {list(shape)}; the model takes {spec}"
        )
    if dtype.newbyteorder("=") != spec.dtype and spec.dtype.kind not in _CASTS.get(dtype.kind, ""):
        raise DataError(
            f"{where}: input {spec.name!r} is of type {dtype}; the model takes {spec}; "
            f"convert it (and scale it as in training) when the file is made"
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
            f"one sample may have {MAX_SAMPLE_BYTES >> 30} GiB at most"
        )


def cast_to_input(spec: InputSpec, array: NDArray[Any], where: str) -> NDArray[Any]:
    """The array as the model takes it, cast where that is safe.

    Raises:
        DataError: Another shape or kind, no values, values that the model's type cannot hold, NaN or +inf.
    """
    check_header(spec, array.shape, array.dtype, where)
    if array.dtype.kind == "f" and not spec.may_hold_nan and array.size:
        largest = array.max()  # NaN where there is one
        if not largest < np.inf:
            what = "NaN" if np.isnan(largest) else "+inf"
            raise DataError(
                f"{where}: input {spec.name!r} holds {what}; repair or remove the sample"
            )
    if array.dtype == spec.dtype:
        return array
    if array.size and array.dtype.kind in "iu" and spec.dtype.kind in "iu":
        limits = np.iinfo(spec.dtype)
        lo, hi = int(array.min()), int(array.max())
        if lo < limits.min or hi > limits.max:
            raise DataError(
                f"{where}: input {spec.name!r} holds {lo if lo < limits.min else hi}, "
                f"which the model's {spec.dtype} cannot hold"
            )
    with np.errstate(over="ignore"):
        cast = array.astype(spec.dtype)
    if spec.dtype.kind == "f" and not np.array_equal(np.isinf(cast), np.isinf(array)):
        raise DataError(
            f"{where}: input {spec.name!r} holds values that the model's {spec.dtype} cannot hold"
        )
    return cast


def match_keys(
    keys: Sequence[str], inputs: Sequence[InputSpec], where: str
) -> tuple[Mapping[str, str], str | None]:
    """Which array feeds which input, and which holds the labels (None where none does).

    The names must be the model's inputs, and ``labels`` besides; an array that was saved without a
    name (``arr_0``) feeds the only input.

    Raises:
        DataError: Names that are missing or unexpected; all are listed.
    """
    wanted = [spec.name for spec in inputs]
    labels = "labels" if "labels" in keys and "labels" not in wanted else None
    arrays = [key for key in keys if key != labels]
    if len(wanted) == 1 and arrays == ["arr_0"]:
        return {wanted[0]: "arr_0"}, labels
    missing = [name for name in wanted if name not in arrays]
    extra = [key for key in arrays if key not in wanted]
    if missing or extra:
        said = [
            f"{word} {', '.join(map(repr, names))}"
            for word, names in (("missing", missing), ("unexpected", extra))
            if names
        ]
        if not wanted:
            raise DataError(f"{where}: the model has no inputs that data could be fed to")
        raise DataError(
            f"{where}: arrays must be named as the model's inputs, "
            f"{', '.join(map(repr, wanted))}, and 'labels' if any: {'; '.join(said)}"
        )
    return {name: name for name in wanted}, labels
