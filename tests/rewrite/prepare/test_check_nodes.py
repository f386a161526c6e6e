"""Constants that cannot mean anything to a node. Oracle: ONNX Runtime, which does not run the model either."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from networks import build_network

import ptq
from ptq.core.errors import ModelError
from ptq.model.machine.ort_version import INSTALLED


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


X = {"x": (2, 4, 8, 8)}
TWO, ZERO = np.array(2), np.array(0)
CASES = [
    ("Slice(r, a, b)", {"a": ZERO, "b": TWO}),
    ("Slice(r, a, b)", {"a": whole(0), "b": whole(2, 2)}),
    ("Slice(r, a, b, c)", {"a": whole(0), "b": whole(2), "c": whole(0, 1)}),
    ("Slice(r, a, b, , c)", {"a": whole(0), "b": whole(2), "c": whole(1, 1)}),
    ("Pad(r, a, , b)", {"a": whole(1, 1), "b": whole()}),
    ("Pad(r, a, , b)", {"a": whole(0, 0, 1, 1, 0, 0, 1, 1), "b": whole(2, 3)}),
    ("Pad(r, a)", {"a": whole(0, 0, 1, 1, 0, 0, 1)}),
    ("ReduceMean(r, a)", {"a": TWO}),
    ("ReduceL2(r, a)", {"a": TWO}),
    ("Resize(r, , a)", {"a": np.float32([1, 1, np.nan, 1])}),
    ("Resize(r, , a)", {"a": np.float32([1, 1, -1, 1])}),
    ("Resize(r, , a)", {"a": np.float32([1, 1, 0, 1])}),
    ("Resize(r, , , a)", {"a": whole(2, 4, -8, 8)}),
    ("Conv(r, a)", {"a": ones(4)}),
    ("Conv(r, a)", {"a": ones(4, 4)}),
    ("ConvTranspose(r, a)", {"a": ones(4, 4)}),
    ("Conv(r, a, b)", {"a": ones(3, 4, 1, 1), "b": ones(8)}),
    ("Conv(r, a, b)", {"a": ones(3, 4, 1, 1), "b": ones(1, 3)}),
    ("ConvTranspose<group=2>(r, a, b)", {"a": ones(4, 3, 1, 1), "b": ones(3)}),
    ("Conv<kernel_shape=[3,3]>(r, a)", {"a": ones(3, 4, 1, 1)}),
    ("Conv<group=4>(r, a)", {"a": ones(2, 1, 1, 1)}),
    ("Conv<strides=[0,1]>(r, a)", {"a": ones(3, 4, 1, 1)}),
    ("Conv<dilations=[1,-1]>(r, a)", {"a": ones(3, 4, 1, 1)}),
    ("MaxPool<kernel_shape=[2,2], strides=[1,0]>(r)", {}),
    ("AveragePool<kernel_shape=[2,0]>(r)", {}),
    ("Reshape(r, a)", {"a": TWO}),
    ("Gemm(f, a)", {"a": ones(256)}),
    ("Gemm(f, a, b)", {"a": ones(256, 4), "b": ones(5)}),
    ("Gemm<transB=1>(f, a, b)", {"a": ones(4, 256), "b": ones(1, 1, 4)}),
    ("BatchNormalization(r, a, a, a, a)", {"a": ones(1, 4)}),
    ("BatchNormalization(r, a, a, a, b)", {"a": ones(4), "b": ones(3)}),
    ('MaxPool<kernel_shape=[3,3], auto_pad="FULL">(r)', {}),
]


def _run_in_onnx_runtime(model: onnx.ModelProto) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    session.run(None, {"x": ones(2, 4, 8, 8)})


@pytest.mark.parametrize(("call", "constants"), CASES)
def test_a_node_that_onnx_runtime_refuses_is_refused_by_name(call: str, constants: dict) -> None:
    nodes = f"r = Relu(x)\nf = Flatten(r)\nt = {call}\ny = Relu(t)"
    model = build_network(nodes, X, opset=18, **constants)
    if INSTALLED >= (1, 27):  # older versions end the process on some of them
        with pytest.raises(Exception, match=r"ONNXRuntimeError|ShapeInferenceError"):
            _run_in_onnx_runtime(model)
    with pytest.raises(ModelError) as caught:
        ptq.inspect(model)
    assert call.partition("(")[0].partition("<")[0] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nodes_of_which_others_are_made_are_looked_at_too() -> None:
    """Oracle: ONNX's own definition of the operator, a convolution with a group for each channel."""
    call = "c, s = CausalConvWithState(x, w)\ny = Relu(c)"
    model = build_network(call, {"x": (2, 4, 8)}, opset=27, w=ones(1, 1, 4))
    with pytest.raises(
        ModelError, match=r"^Conv \S+ has weights of shape \[1, 1, 4\] for 4 groups"
    ):
        ptq.inspect(model)
    assert ptq.inspect(build_network(call, {"x": (2, 4, 8)}, opset=27, w=ones(4, 1, 4))).nodes


@pytest.mark.parametrize("rest", ["y = Relu(t)", "g = GlobalAveragePool(t)\ny = Flatten(g)"])
def test_a_transposed_convolution_that_shrinks_is_refused(rest: str) -> None:
    """Oracle: ONNX's shape inference leaves its output two axes, of the four that there are."""
    model = build_network(
        f"t = ConvTranspose<output_shape=[4,9]>(x, a)\n{rest}", X, a=ones(4, 3, 3, 3)
    )
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info[0]
    assert len(inferred.type.tensor_type.shape.dim) == 2
    with pytest.raises(ModelError) as caught:
        ptq.inspect(model)
    assert str(caught.value).startswith("ConvTranspose ConvTranspose_t has output_shape [4, 9], ")
    assert "its input of shape 2×4×8×8; use pads instead" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "constants", "said"),
    [
        ("Squeeze(x, a)", {"a": whole()}, "an empty list of axes"),
        ("Clip(x, a)", {"a": np.float32(np.nan)}, "a bound of NaN"),
    ],
)
def test_what_onnx_and_onnx_runtime_read_otherwise_is_refused(
    call: str, constants: dict, said: str
) -> None:
    with pytest.raises(ModelError, match=f" has {said}; export the model again"):
        ptq.inspect(build_network(f"y = {call}", X, opset=18, **constants))


def test_an_axis_that_no_tensor_has_is_refused() -> None:
    model = build_network("y = Softmax<axis=1099511627776>(x)", X)
    with pytest.raises(ModelError, match=r"^Softmax \S+ has axis 1099511627776"):
        ptq.inspect(model)


@pytest.mark.parametrize(
    ("call", "constants"),
    [
        ("Slice(r, a, a)", {"a": whole()}),
        ("Slice(r, a, b, a)", {"a": whole(0, 1), "b": whole(2, 3)}),
        ("Pad(r, a, , b)", {"a": whole(1, 1, 1, 1), "b": whole(2, -1)}),
        ("ReduceMean(r, a)", {"a": whole(2, 3)}),
        ("Gemm(f, a, b)", {"a": ones(256, 4), "b": ones(2, 4)}),
        ("Gemm(f, a, b)", {"a": ones(256, 4), "b": ones(2, 1)}),
        ("Gemm(f, a, b)", {"a": ones(256, 4), "b": np.float32(3)}),
        ("Conv(r, a)", {"a": ones(4, 4, 1, 1)}),
        ("ConvTranspose<group=2>(r, a, b)", {"a": ones(4, 3, 1, 1), "b": ones(6)}),
        ("ConvTranspose<output_shape=[8,9]>(r, a)", {"a": ones(4, 3, 2, 2)}),
    ],
)
def test_a_node_that_onnx_runtime_runs_is_not(call: str, constants: dict) -> None:
    nodes = f"r = Relu(x)\nf = Flatten(r)\nt = {call}\ny = Relu(t)"
    model = build_network(nodes, X, opset=18, **constants)
    onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": ones(2, 4, 8, 8)})
    assert ptq.inspect(model).nodes
