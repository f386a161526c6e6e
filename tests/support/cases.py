"""Networks that each bring one thing that a quantizer stumbles over, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
from networks import QuantizedNetwork, quantize_network
from networks_of_ends import EDGE_CASES
from networks_of_layers import LAYER_CASES
from networks_of_rows import OTHER_OP_CASES
from networks_of_sums import SUM_CASES
from old_runtime import skip_before

from ptq.model.machine.ort_version import Version

CASES = {**SUM_CASES, **LAYER_CASES, **EDGE_CASES, **OTHER_OP_CASES}
_TAKES_FOR_1 = ((1, 21), "takes a ceil_mode of neither 0 nor 1 for 1")
_INTERPOLATES_INTEGERS = ((1, 27), "interpolates integers without a quantizer after it")
FLAWS: Mapping[tuple[str, str], tuple[Version, str]] = {
    ("pools with a ceil_mode of neither 0 nor 1", "ort"): _TAKES_FOR_1,
    ("pools with a ceil_mode of neither 0 nor 1", "litert"): _TAKES_FOR_1,
    ("linear", "litert"): _INTERPOLATES_INTEGERS,
    ("linear with corners", "litert"): _INTERPOLATES_INTEGERS,
}
"""What ONNX Runtime computes otherwise before a version, by case and target."""


@cache
def quantized_case(name: str, target: str = "ort") -> QuantizedNetwork:
    """The network of that name, quantized by min/max on Gaussian samples."""
    return quantize_network(CASES[name], target=target)


def case_in_onnx_runtime(name: str, target: str = "ort") -> QuantizedNetwork:
    """The quantized case, for a comparison with ONNX Runtime; the test is skipped if it is too old for it."""
    if (name, target) in FLAWS:
        skip_before(*FLAWS[name, target])
    return quantized_case(name, target)


def case_with_integers(name: str) -> QuantizedNetwork:
    """The quantized case; the test is skipped if all of it stays float."""
    done = quantized_case(name)
    if not done.plan.tensors:
        pytest.skip("all of it stays float")
    return done
