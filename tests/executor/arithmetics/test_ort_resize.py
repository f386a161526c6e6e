"""Nearest pixels of Resize in the ``ort`` arithmetic of each version. Oracle: ONNX Runtime live."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from sites import int8_params, run_node

P = int8_params(0.05, -7)
X = np.arange(28, dtype=np.int8).reshape(1, 28, 1, 1)
SIZES = np.array([1, 1, 38, 1])
"""28 to 38 meets half-way positions that float32 misses by a last bit."""


def resize(arithmetic: str) -> np.ndarray:
    return run_node(arithmetic, "Resize nearest", [(X, P)], P, sizes=SIZES)


def test_the_installed_version_copies_onnx_runtime_s_pixels() -> None:
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 1, 28, 1])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(SIZES, "sizes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    theirs = session.run(None, {"x": np.moveaxis(X, -1, 1)})[0]
    np.testing.assert_array_equal(np.moveaxis(resize("ort"), -1, 1), theirs)


@pytest.mark.parametrize(("version", "pixel"), [("1.26", 7), ("1.27", 6)])
def test_a_position_beside_a_half_is_a_tie_since_1_27(version: str, pixel: int) -> None:
    assert resize(f"ort@{version}")[0, 9, 0, 0] == pixel
