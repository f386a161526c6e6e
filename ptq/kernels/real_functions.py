"""ONNX's functions of one value, in float64, with a relative error of at most 2^-48.

For 8 bits a function of one value is a table of 256 entries (`lookup`). So its cost does not matter, and its error is
far below one LSB. Where a function is not defined (log of a negative number) the value is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.kernels.special_functions import load_special_functions

Real = NDArray[np.float64]
Function = Callable[[Real], Real]
FunctionMaker = Callable[[Mapping[str, Any]], Function]
"""Maps ONNX attributes to the function."""

# Selu's defaults in ONNX's schema, both float32.
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def _without_attributes(function: Callable[[Real], Any]) -> FunctionMaker:
    return lambda attrs: lambda x: np.asarray(function(x), np.float64)


def _with_attribute(
    name: str, default: float, function: Callable[[Real, float], Any]
) -> FunctionMaker:
    """Return the maker of a function with one attribute, which is a float32 as in ONNX."""

    def make(attrs: Mapping[str, Any]) -> Function:
        value = float(np.float32(np.asarray(attrs.get(name, default)).item()))
        return lambda x: np.asarray(function(x, value), np.float64)

    return make


def _exponential_unit(x: Real, alpha: float) -> Real:
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(x: Real, alpha: float) -> Real:
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0)


def _make_gelu(attrs: Mapping[str, Any]) -> Function:
    if attrs.get("approximate", "none") in ("tanh", b"tanh"):
        slope = np.sqrt(2 / np.pi)
        return lambda x: x * load_special_functions().expit(2 * slope * (x + 0.044715 * x**3))
    return lambda x: x * load_special_functions().ndtr(x)


def _make_hard_sigmoid(attrs: Mapping[str, Any]) -> Function:
    alpha, beta = (np.float32(attrs.get(k, v)) for k, v in (("alpha", 0.2), ("beta", 0.5)))
    return lambda x: np.clip(float(alpha) * x + float(beta), 0, 1)


def _make_selu(attrs: Mapping[str, Any]) -> Function:
    alpha = float(np.float32(attrs.get("alpha", SELU_ALPHA)))
    gamma = float(np.float32(attrs.get("gamma", SELU_GAMMA)))
    return lambda x: gamma * _exponential_unit(x, alpha)


def _softplus(x: Real) -> Real:
    return np.logaddexp(0, x)


FUNCTIONS: Mapping[str, FunctionMaker] = {
    "Abs": _without_attributes(np.abs),
    "Ceil": _without_attributes(np.ceil),
    "Celu": _with_attribute("alpha", 1.0, _celu),
    "Cos": _without_attributes(np.cos),
    "Elu": _with_attribute("alpha", 1.0, _exponential_unit),
    "Erf": _without_attributes(lambda x: load_special_functions().erf(x)),
    "Exp": _without_attributes(np.exp),
    "Floor": _without_attributes(np.floor),
    "Gelu": _make_gelu,
    "HardSigmoid": _make_hard_sigmoid,
    "HardSwish": _without_attributes(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "LeakyRelu": _with_attribute("alpha", 0.01, lambda x, alpha: np.where(x >= 0, x, alpha * x)),
    "Log": _without_attributes(np.log),
    "Mish": _without_attributes(lambda x: x * np.tanh(_softplus(x))),
    "Neg": _without_attributes(np.negative),
    "Pow": _with_attribute("exponent", 1.0, np.power),
    "Reciprocal": _without_attributes(np.reciprocal),
    "Round": _without_attributes(np.rint),
    "Selu": _make_selu,
    "Sigmoid": _without_attributes(lambda x: load_special_functions().expit(x)),
    "Sign": _without_attributes(np.sign),
    "Sin": _without_attributes(np.sin),
    "Softplus": _without_attributes(_softplus),
    "Softsign": _without_attributes(lambda x: x / (1 + np.abs(x))),
    "Sqrt": _without_attributes(np.sqrt),
    "Tanh": _without_attributes(np.tanh),
    "ThresholdedRelu": _with_attribute("alpha", 1.0, lambda x, alpha: np.where(x > alpha, x, 0)),
}


def get_real_function(op: str, attrs: Mapping[str, Any]) -> Function:
    """Return the float64 function of an ONNX operator of one value under its attributes.

    A constant exponent of Pow is its attribute ``exponent``. There is no warning where the function is infinite or
    not defined.
    """
    function = FUNCTIONS[op](attrs)

    def quiet(x: Real) -> Real:
        with np.errstate(all="ignore"):
            return function(np.asarray(x, np.float64))

    return quiet
