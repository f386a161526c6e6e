"""Functions of the C library in float32, which LiteRT calls: their last bits are the library's own."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.kernels.special_functions import load_special_functions

Name = Literal["erfcf", "tanhf"]
_EXACT: Mapping[Name, Callable[[Any], NDArray[Any]]] = {
    "erfcf": lambda x: load_special_functions().erfc(x),
    "tanhf": np.tanh,
}


@cache
def get_c_function(name: Name) -> Callable[[FloatArray], FloatArray]:
    """Return a function of the C library; without the library, the float64 function rounded to float32.

    The two differ by the last bit for some arguments, and then by one integer at a tie.
    """
    path = ctypes.util.find_library("m")
    if path is None:
        return lambda x: _EXACT[name](x.astype(np.float64)).astype(np.float32)
    function = getattr(ctypes.CDLL(path), name)
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    return lambda x: np.array([function(float(v)) for v in x.flat], np.float32).reshape(x.shape)
