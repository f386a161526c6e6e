"""ONNX's functions of one value in float64, against ONNX's reference evaluator in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ptq.kernels.real_functions import FUNCTIONS, get_real_function

ATTRIBUTES: list[tuple[str, dict[str, Any]]] = [
    *((op, {}) for op in FUNCTIONS if op != "Pow"),
    ("Celu", {"alpha": 0.5}),
    ("Elu", {"alpha": 0.25}),
    ("Gelu", {"approximate": "tanh"}),
    ("HardSigmoid", {"alpha": 0.125, "beta": 0.75}),
    ("LeakyRelu", {"alpha": -0.5}),
    ("Selu", {"alpha": 2.0, "gamma": 3.0}),
    ("ThresholdedRelu", {"alpha": 2.0}),
]


@pytest.mark.parametrize(("op", "attrs"), ATTRIBUTES, ids=str)
def test_the_function_is_the_operators(op: str, attrs: dict[str, Any]) -> None:
    x = np.concatenate([np.linspace(-9, 9, 301), [-0.5, 0.5, 1.5, 2.5]])
    node = onnx.helper.make_node(op, ["x"], ["y"], **attrs)
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, x.shape)
    graph = onnx.helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)])
    with np.errstate(all="ignore"):
        (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    # the evaluator computes a few of them in float32
    np.testing.assert_allclose(get_real_function(op, attrs)(x), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 2.0, 3.0])
def test_a_power_has_its_exponent_as_an_attribute(exponent: float) -> None:
    x = np.linspace(0.1, 5, 50)
    for given in (exponent, np.float32(exponent), np.array([exponent], np.float32)):
        np.testing.assert_allclose(get_real_function("Pow", {"exponent": given})(x), x**exponent)


def test_a_function_that_is_not_defined_gives_nan_without_a_warning() -> None:
    assert np.isnan(get_real_function("Log", {})(np.array([-1.0]))).all()
    assert np.isneginf(get_real_function("Log", {})(np.array([0.0]))).all()
    assert np.isnan(get_real_function("Sqrt", {})(np.array([-1.0]))).all()
