"""Oracle: ONNX Runtime."""

from __future__ import annotations

import numpy as np
from networks import build_network, gaussian_array

from ptq.api.quantize import quantize
from ptq.model.session.session import Session


def test_a_weight_that_is_also_an_output_is_quantized_and_the_output_is_unchanged() -> None:
    w = gaussian_array(4, 3, 3, 3)
    model = build_network("y = Conv<kernel_shape = [3, 3]>(x, w)", outputs=("y", "w"), w=w)
    data = gaussian_array(4, 1, 3, 8, 8)
    result = quantize(model, {"x": data}, threads=1)
    assert [row.fate for row in result.report.nodes if row.op == "Conv"] == ["int8"]
    out = Session(result.graph)
    assert out.outputs == ("y", "w")
    np.testing.assert_array_equal(out.run({"x": data[0]})[1], w)
