"""Operators of other domains: the message names the operator and what to do, and the advice works."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import ptq

HEAD = '<ir_version: 8, opset_import: ["": 17, "my.domain": 1]>'
BODY = "f (float[N, 4] x) => (float[N, 4] y) { h = my.domain.MyOp(x) y = Relu(h) }"
FUNCTION = (
    '<domain: "my.domain", opset_import: ["": 17]> MyOp (a) => (b) { n = Neg(a) b = Add(n, a) }'
)
DATA = {"x": np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)}


def test_a_custom_operator_is_named_with_its_node_and_a_remedy() -> None:
    model = onnx.parser.parse_model(HEAD + BODY)
    model.graph.node[0].name = "custom"
    with pytest.raises(ptq.ModelError) as caught:
        ptq.quantize(model, DATA)
    message = str(caught.value)
    assert "custom operator my.domain::MyOp (node custom)" in message
    assert message.endswith("export it as standard operators, or as an ONNX function of them")


def test_a_custom_operator_that_is_an_onnx_function_is_quantized() -> None:
    model = onnx.parser.parse_model(HEAD + BODY + "\n" + FUNCTION)
    assert ptq.quantize(model, DATA, target="litert", threads=1).report.evaluation is not None
