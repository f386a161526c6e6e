"""Weights whose integers are chosen already."""

from __future__ import annotations

import numpy as np
import onnx.parser

from ptq.core.types import INT8_WEIGHT, UINT8, QuantParams
from ptq.model.graph import Graph
from ptq.rewrite.emit.rounded_weight import RoundedWeight, get_chosen_integers

PARAMS = QuantParams(np.array([0.5, 0.3], np.float32), np.zeros(2, np.int64), INT8_WEIGHT, axis=1)
INTEGERS = np.array([[1, -127], [127, 3], [0, -1]], np.int8)


def test_real_values_are_those_that_quantize_to_the_integers() -> None:
    weight = RoundedWeight(INTEGERS, PARAMS)
    np.testing.assert_array_equal(weight.numpy(), PARAMS.dequantize(INTEGERS))
    np.testing.assert_array_equal(PARAMS.quantize(weight.numpy()), INTEGERS)


def test_integers_are_taken_only_with_their_own_parameters() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> f (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }'
    )
    value = Graph.from_proto(model).add_constant(RoundedWeight(INTEGERS, PARAMS), "w")
    assert get_chosen_integers(value, PARAMS) is INTEGERS
    assert get_chosen_integers(value, QuantParams.per_tensor(0.1, 3, UINT8)) is None
