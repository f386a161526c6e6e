from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.reduce_mean_to_pool import reduce_mean_to_pool


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[2, 3], [-1, -2]])
def test_a_mean_over_height_and_width_is_a_global_average_pool(
    opset, keepdims, axes, parsed, same_function, operators, rng
):
    given = f"axes={axes}, " if opset < 18 else ""
    more = ", a" if opset >= 18 else ""
    shape = "N,3,1,1" if keepdims else "N,3"
    text = f"""g (float[N,3,4,5] x) => (float[{shape}] y) {{
        y = ReduceMean<{given}keepdims={keepdims}>(x{more}) }}"""
    before, after = (parsed(text, opset=opset, a=np.array(axes, np.int64)) for _ in range(2))
    assert reduce_mean_to_pool(after) == [Change("reduce_mean_to_pool", 1)]
    assert operators(after) == {"GlobalAveragePool": 1} | ({} if keepdims else {"Flatten": 1})
    same_function(before, after, {"x": rng.standard_normal((2, 3, 4, 5)).astype(np.float32)})


def test_a_mean_in_float64_stays_because_onnx_runtime_has_no_pool_of_it(parsed, same_function, rng):
    text = "g (double[N,3,4,5] x) => (double[N,3] y) { y = ReduceMean<axes=[2,3], keepdims=0>(x) }"
    before, after = parsed(text), parsed(text)
    assert reduce_mean_to_pool(after) == []
    same_function(before, after, {"x": rng.standard_normal((2, 3, 4, 5))})


@pytest.mark.parametrize(
    ("kind", "axes"),
    [
        ("float[N,3,4,5]", "[3]"),
        ("float[N,3,4,5]", "[1,2]"),
        ("float[N,3,4,5]", "[1,2,3]"),
        ("float[N,3,4]", "[2]"),
        ("int32[N,3,4,5]", "[2,3]"),
        ("float[N,3,0,5]", "[2,3]"),  # ONNX Runtime refuses the pool of an empty axis
    ],
)
def test_other_means_stay(kind, axes, parsed):
    element = kind.partition("[")[0]
    text = f"g ({kind} x) => ({element}[a,b] y) {{ y = ReduceMean<axes={axes}, keepdims=0>(x) }}"
    assert reduce_mean_to_pool(parsed(text)) == []
