"""Orders in which a `.tflite` file stores inputs and outputs: channels last for images, ONNX's own for all else."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.executor.litert_comparison import compare_with_executor
from ptq.executor.tflite_export import as_qdq, encode_tflite
from ptq.model.graph import Graph
from ptq.model.open import open_model
from ptq.model.session.session import Session

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from ai_edge_litert.interpreter import Interpreter

from ptq.model.tflite.describe_orders import describe_orders
from ptq.model.tflite.interpreter import ORDERS, LitertModel, read_metadata
from ptq.model.tflite.parsed import parse_tflite
from ptq.rewrite.tflite.write import InputOutputType, TfliteOptions

WEIGHT = gaussian_array(6, 6, seed=1)


def _orders_of(content: bytes) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(read_metadata(content)[ORDERS])
    return found


def _has_transpose(content: bytes) -> bool:
    return any(o.builtin == "TRANSPOSE" for o in parse_tflite(content).operators)


def _check_numbers(model: onnx.ModelProto, content: bytes, feed: dict[str, np.ndarray]) -> None:
    expected = Session(Graph.from_proto(model)).run(feed)
    for array, found in zip(expected, LitertModel(content).run(feed).values(), strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pool", ["GlobalAveragePool", "GlobalMaxPool"])
def test_a_pool_over_the_features_of_a_sequence_makes_it_no_image(pool: str) -> None:
    nodes = f"m = {pool}(seq)\nd = Sub(seq, m)\nh = MatMul(d, w)\ny = {pool}(h)"
    model = build_network(nodes, {"seq": ("n", 5, 6)}, w=WEIGHT)
    content = encode_tflite(Graph.from_proto(model)).content
    assert _orders_of(content) == {"seq": [0, 1, 2], "y": [0, 1, 2]}
    assert not _has_transpose(content)
    assert describe_orders(content) == ()
    _check_numbers(model, content, {"seq": gaussian_array(3, 5, 6, seed=2)})


def test_a_sequence_that_a_convolution_reads_is_stored_channels_last() -> None:
    nodes = "c = Conv(seq, w)\nr = Relu(c)\np = GlobalAveragePool(r)\ny = Flatten(p)"
    weight = gaussian_array(4, 5, 3, seed=1)
    model = build_network(nodes, {"seq": ("n", 5, 6)}, ("r", "y"), w=weight)
    content = encode_tflite(Graph.from_proto(model)).content
    assert not _has_transpose(content)
    assert describe_orders(content) == (
        "input seq is stored as N × 6 × 5: transpose your arrays by (0, 2, 1)",
        "output r is stored as N × 4 × 4: transpose it back by (0, 2, 1)",
    )
    _check_numbers(model, content, {"seq": gaussian_array(3, 5, 6, seed=2)})


@pytest.mark.parametrize("io", ["float", "float16"])
@pytest.mark.parametrize("behind", ["", "Relu"])
def test_a_transpose_at_the_end_of_the_model_is_written(io: InputOutputType, behind: str) -> None:
    nodes = "h = MatMul(seq, w)\nt = Transpose<perm = [0, 2, 1]>(h)"
    nodes += "\ny = Relu(t)" if behind else ""
    end = "y" if behind else "t"
    model = build_network(nodes, {"seq": ("n", 5, 6)}, ("h", end), w=WEIGHT)
    content = encode_tflite(Graph.from_proto(model), TfliteOptions(io)).content
    assert _orders_of(content) == {"seq": [0, 1, 2], "h": [0, 1, 2], end: [0, 1, 2]}
    assert _has_transpose(content)
    if io == "float":
        _check_numbers(model, content, {"seq": gaussian_array(3, 5, 6, seed=2)})


@pytest.mark.parametrize("outputs", [("y", "h"), ("h", "y")])
def test_a_file_is_read_whose_outputs_are_one_tensor_in_two_orders(
    outputs: tuple[str, str],
) -> None:
    nodes = "h = Conv(x, w)\ny = Transpose<perm = [0, 2, 3, 1]>(h)"
    model = build_network(nodes, {"x": ("n", 3, 4, 6)}, outputs, w=gaussian_array(4, 3, 3, 3))
    x = gaussian_array(20, 3, 4, 6, seed=2)
    options = {"target": "litert", "form": "tflite", "effort": "fast", "threads": 1, "force": True}
    content = ptq.quantize(model, x, **options).tflite
    read, real = (
        dict(zip(outputs, Session(graph).run({"x": x[:1]}), strict=True))
        for graph in (open_model(content), Graph.from_proto(model))
    )
    np.testing.assert_array_equal(read["y"], read["h"].transpose(0, 2, 3, 1))
    np.testing.assert_allclose(read["h"], real["h"], atol=0.2)


def test_the_report_and_inspect_say_how_arrays_are_transposed(tmp_path) -> None:
    model = build_network(
        "y = Conv(image, w)", {"image": ("n", 3, 6, 8)}, w=gaussian_array(4, 3, 3, 3, seed=1)
    )
    data = {"image": gaussian_array(20, 3, 6, 8, seed=2)}
    made = ptq.quantize(
        model, data, target="litert", form="tflite", effort="fast", threads=1, force=True
    )
    lines = (
        "input image is stored as N × 6 × 8 × 3: transpose your arrays by (0, 2, 3, 1)",
        "output y is stored as N × 4 × 6 × 4: transpose it back by (0, 3, 1, 2)",
    )
    assert set(lines) <= set(made.report.changes)
    made.save(tmp_path / "m.tflite")
    inspection = ptq.inspect(tmp_path / "m.tflite")
    assert inspection.changes == lines
    assert (inspection.opset, inspection.target) == (None, "litert")


@pytest.mark.parametrize("target", ["litert", "litert-a16"])
def test_a_file_that_is_fully_integer_has_no_float_node(target: str, tmp_path) -> None:
    nodes = "c = ConvTranspose<strides = [2, 2]>(image, w)\ny = Tanh(c)"
    model = build_network(nodes, {"image": ("n", 3, 6, 8)}, w=gaussian_array(3, 4, 2, 2, seed=1))
    data = {"image": gaussian_array(20, 3, 6, 8, seed=2)}
    made = ptq.quantize(
        model, data, target=target, form="tflite", effort="fast", threads=1, force=True
    )
    made.save(tmp_path / "m.tflite")
    inspection = ptq.inspect(tmp_path / "m.tflite")
    assert inspection.target == target
    assert [row for row in inspection.nodes if row.fate == "float"] == []


def _run_plain(content: bytes, stored: np.ndarray) -> np.ndarray:
    """The output of a file for an input as it stores it, in LiteRT's interpreter alone."""
    interpreter = Interpreter(model_content=content, num_threads=1)
    [given], [result] = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(given["index"], stored.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], np.ascontiguousarray(stored))
    interpreter.invoke()
    found: np.ndarray = interpreter.get_tensor(result["index"])
    return found


_FLATTENED = {
    "Gemm": "f = Flatten(s)\ny = Gemm(f, m)",
    "MatMul": "f = Reshape(s, to)\ny = MatMul(f, m)",
}


def _build_flattened(function: str, axis: int, product: str, rank: int) -> onnx.ModelProto:
    nodes = f"c = Conv(x, w)\ns = {function}<axis = {axis}>(c)\n{_FLATTENED[product]}"
    shape = {3: (3, 8), 4: (3, 7, 5)}[rank]
    constants = {
        "w": gaussian_array(4, 3, *(1,) * (rank - 2), seed=1),
        "m": gaussian_array(4 * int(np.prod(shape[1:])), 6, seed=3),
        "to": np.array([-1, 4 * int(np.prod(shape[1:]))]),
    }
    return build_network(nodes, {"x": ("n", *shape)}, **constants)


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("product", ["Gemm", "MatMul"])
@pytest.mark.parametrize("function", ["Softmax", "LogSoftmax", "LpNormalization"])
def test_a_matrix_reads_features_in_the_order_in_which_a_function_along_an_axis_stores_them(
    function: str, product: str, rank: int
) -> None:
    x = gaussian_array(2, 3, *{3: (8,), 4: (7, 5)}[rank], seed=2)
    for axis in range(rank):
        model = _build_flattened(function, axis, product, rank)
        [expected] = Session(Graph.from_proto(model)).run({"x": x})
        found = _run_plain(encode_tflite(Graph.from_proto(model)).content, np.moveaxis(x, 1, -1))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=f"axis {axis}")


_IN_TWO_ORDERS = {
    "a Softmax along a middle axis": ("s = Softmax<axis = 2>(x)", (4, 5, 5), (4, 5, 5)),
    "an image without its batch": (
        "c = Conv(x, w)\ns = ReduceMax<axes = [0], keepdims = 0>(c)", (4, 4, 4), (4, 4, 4),
    ),
    "a sequence with fewer axes": ("s = Conv(x, w)", (4, 6), (2, 4, 6)),
}  # fmt: skip


@pytest.mark.parametrize(
    "ending",
    ["y = Sub(z, s)", "y = Sum(z, s)", "y = Max(z, s)", "b = Greater(z, s)\ny = Where(b, z, s)"],
)
@pytest.mark.parametrize("case", _IN_TWO_ORDERS)
def test_operands_that_are_stored_in_two_orders_are_read_in_one(case: str, ending: str) -> None:
    nodes, x, z = _IN_TWO_ORDERS[case]
    shapes = {"x": (1, *x), "z": z if "without its batch" in case else (1, *z)}
    weight = gaussian_array(4, 4, *(1,) * (len(x) - 1), seed=1)
    model = build_network(f"{nodes}\n{ending}", shapes, opset=17, w=weight)
    feed = {name: gaussian_array(*shape, seed=2) for name, shape in shapes.items()}
    _check_numbers(model, encode_tflite(Graph.from_proto(model)).content, feed)


@pytest.mark.parametrize("target", ["litert", "litert-xnnpack"])
def test_a_quantized_matrix_reads_the_features_of_a_softmax_along_a_spatial_axis(
    target: str,
) -> None:
    model = _build_flattened("Softmax", 3, "Gemm", 4)
    x = gaussian_array(24, 3, 7, 5, seed=2)
    options = {"form": "tflite", "effort": "fast", "threads": 1, "force": True}
    result = ptq.quantize(model, x, target=target, **options)
    [expected] = Session(Graph.from_proto(model)).run({"x": x})
    found = _run_plain(result.tflite, np.moveaxis(x, 1, -1))
    assert np.square(found - expected).mean() < 1e-3 * np.square(expected).mean()


def test_flattened_images_are_compared_feature_by_feature(tmp_path) -> None:
    nodes = "c = Conv(x, w)\nr = Relu(c)\nf = Flatten(r)\ny = Gemm(f, m)"
    weights = {"w": gaussian_array(4, 3, 1, 1, seed=1), "m": gaussian_array(4 * 35, 6, seed=3)}
    model = build_network(nodes, {"x": ("n", 3, 7, 5)}, **weights)
    x = gaussian_array(16, 3, 7, 5, seed=2)
    options = {"target": "litert", "effort": "fast", "threads": 1, "force": True}
    ptq.quantize(model, x, **options).save(tmp_path / "q.onnx")
    graph = as_qdq(Graph.load(tmp_path / "q.onnx"))
    file = encode_tflite(graph)
    [(flat, features)] = [
        (name, order) for name, order in file.features.items() if name.endswith("_quantized")
    ]
    assert not np.array_equal(features, np.arange(4 * 35))
    found = compare_with_executor(
        file.content, graph, [{"x": x[:1]}], kernels="reference", orders=file.orders,
        features=file.features,
    )  # fmt: skip
    assert found.tensors[flat].elements == 4 * 35
    assert found.first is None
