"""What `.tflite` files compute in float, with ONNX Runtime as the oracle, and what ``ptq ops`` says of it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from ptq.core.errors import UnsupportedError
from ptq.core.ops import OPS
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.tflite.rehearsal import rehearse_writing
from ptq.rewrite.tflite.rows import ROWS
from ptq.rewrite.tflite.write import DEFAULT_TFLITE


def test_the_operator_table_names_what_a_file_computes_in_float() -> None:
    in_float = {op for op, row in ROWS.items() if op in OPS and row.integer is None}
    assert in_float == {op for op, spec in OPS.items() if spec.litert_in_float}


def assert_equals_onnx_runtime(
    model: str | onnx.ModelProto, x: np.ndarray, tolerance: float = 1e-6
) -> bytes:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    graph = Graph.from_proto(onnx.parser.parse_model(model) if isinstance(model, str) else model)
    [expected] = Session(graph).run({"x": x})
    content = encode_tflite(graph).content
    [found] = LitertModel(content, kernels="reference").run({"x": x}).values()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return content


@pytest.mark.parametrize(
    "function",
    [
        "Softplus", "Mish", "Softsign", "Celu<alpha = 2.5>", "Elu<alpha = 0.5>", "Selu", "Selu<gamma = 2.0>", "Ceil",
        "HardSigmoid",
    ],
)  # fmt: skip
def test_a_function_of_small_and_large_values_is_finite(function: str) -> None:
    x = np.array([[-1e4, -100, -5, -0.1, 0, 0.1, 5, 80, 89, 1e4]], np.float32)
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 10] x) => (float[N, 10] y)
    {{ y = {function}(x) }}"""
    assert_equals_onnx_runtime(text, x)


@pytest.mark.parametrize("function", ["Elu", "Round"])
def test_functions_that_the_reference_kernels_lack_are_named(function: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 4] x) => (float[N, 4] y)
    {{ y = {function}(x) }}"""
    graph = Graph.from_proto(onnx.parser.parse_model(text))
    content, x = encode_tflite(graph).content, np.array([[-2.5, -0.5, 0.5, 2.5]], np.float32)
    with pytest.raises(UnsupportedError, match=f"reference kernels have no {function.upper()}"):
        LitertModel(content, kernels="reference")
    [found], [expected] = LitertModel(content).run({"x": x}).values(), Session(graph).run({"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_an_exponent_of_integers_has_the_type_of_its_base(kind: str) -> None:
    x = np.array([[-1.5, 0.25, 2.0, 3.0]], np.float32)
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 4] x) => (float[N, 4] y)
    <{kind} exponent = {{3}}> {{ y = Pow(x, exponent) }}"""
    assert_equals_onnx_runtime(text, x)


INT64 = {
    "Concat with a constant": "i = ArgMax<axis = 1>(x) w = Concat<axis = 1>(i, two)",
    "Expand": "i = ArgMax<axis = 1>(x) w = Expand(i, shape)",
    "Clip": "i = ArgMax<axis = 1>(x) w = Clip(i, one, three)",
    "Where of constants": "c = Less(x, zero) s = Where(c, one, three) i = ArgMax(x) w = Add(s, i)",
}


@pytest.mark.parametrize("what", INT64)
def test_integers_of_64_bits_keep_their_type(what: str) -> None:
    x = np.array([[-1.5, 0.25, 2.0, 3.0, 0.5]], np.float32)
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[1, 5] x) => (float[1, m] y)
    <int64[1, 1] two = {{2}}, int64[2] shape = {{1, 3}}, int64 one = {{1}}, int64 three = {{3}}, float zero = {{0.0}}>
    {{ {INT64[what]} y = Cast<to = 1>(w) }}"""
    assert_equals_onnx_runtime(text, x)


@pytest.mark.parametrize(
    ("bounds", "limiting"),
    [
        ("0, 9223372036854775807", 1),
        ("-9223372036854775808, 2", 1),
        ("-9223372036854775808, 9223372036854775807", 0),
        ("9007199254740993, 9223372036854775807", 1),
    ],
)
def test_the_bounds_of_integers_are_not_rounded(bounds: str, limiting: int) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    lo, hi = bounds.split(", ")
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[1, 5] x) => (int64[1, 5] y)
    <int64 lo = {{{lo}}}, int64 hi = {{{hi}}}> {{ i = Cast<to = 7>(x) y = Clip(i, lo, hi) }}"""
    graph = Graph.from_proto(onnx.parser.parse_model(text))
    x = np.array([[-3.0, 0.0, 1.0, 3.0, 1e17]], np.float32)
    [expected], content = Session(graph).run({"x": x}), encode_tflite(graph).content
    [found] = LitertModel(content, kernels="reference").run({"x": x}).values()
    np.testing.assert_array_equal(found, expected)
    assert content.count(b"y_bound") == limiting


DOUBLES = {
    "RESHAPE": "w = Reshape(d, rows)",
    "TRANSPOSE": "w = Transpose<perm = [0, 2, 1]>(d)",
    "SLICE": "w = Slice(d, one, two, one)",
    "STRIDED_SLICE": "w = Slice(d, zero, four, one, two)",
    "TILE": "w = Tile(d, times)",
    "BROADCAST_TO": "w = Expand(d, shape)",
    "MIRROR_PAD": "w = Pad<mode = \"reflect\">(d, pads)",
    "SELECT_V2": "c = Less(x, half) w = Where(c, d, large)",
    "SIGN": "w = Sign(d)",
    "of a table": "i = ArgMax<axis = 1>(x) g = Gather(table, i) w = Reshape(g, rows)",
}  # fmt: skip


@pytest.mark.parametrize("what", DOUBLES)
def test_the_operators_that_take_float64_are_written(what: str) -> None:
    x = np.random.default_rng(0).normal(0, 1, (1, 4, 4)).astype(np.float32)
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[1, 4, 4] x) => (float[a, b] y)
    <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] four = {{4}}, float half = {{0.5}},
     int64[2] rows = {{2, -1}}, int64[2] row = {{1, -1}}, int64[3] times = {{1, 2, 1}}, int64[3] shape = {{3, 4, 4}},
     int64[6] pads = {{0, 1, 1, 0, 1, 1}}, double large = {{3.25}}, double[4] table = {{0.5, 1.5, 2.5, 3.5}}>
    {{ d = Cast<to = 11>(x) {DOUBLES[what]} v = Cast<to = 1>(w) y = Reshape(v, row) }}"""
    assert_equals_onnx_runtime(text, x)


@pytest.mark.parametrize(("start", "end"), [(-9, -99), (3, 2**63 - 1)])
def test_a_slice_backwards_is_that_of_onnx_runtime(start: int, end: int) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[1, 4, 3] x) => (float[a, b, c] y)
    <int64[1] start = {{{start}}}, int64[1] end = {{{end}}}, int64[1] one = {{1}}, int64[1] back = {{-1}}>
    {{ y = Slice(x, start, end, one, back) }}"""
    assert_equals_onnx_runtime(text, x)


def test_a_table_of_int64_keeps_its_type() -> None:
    text = """<ir_version: 9, opset_import: ["": 20]> g (float[1, 5] x) => (float[1, 1] y)
    <int64[5] table = {1, 2, -3, 4, 5}>
    { i = ArgMax<axis = 1>(x) g = Gather(table, i) s = Add(g, i) y = Cast<to = 1>(s) }"""
    assert_equals_onnx_runtime(text, np.array([[1, 2, 3, 4, 1]], np.float32))


MISSING = {
    "DIV of int64": "d = Div(i, two)",
    "POW of int64": "d = Pow(two, i)",
    "SQRT of int64": "d = ReduceL2(i)",
    "SQRT of int32": "k = Cast<to = 6>(i) d = ReduceL2(k)",
    "BATCH_MATMUL of int64": "d = MatMul(i, i)",
    "SPLIT of float64": "k = Cast<to = 11>(x) d, e = Split<axis = 1, num_outputs = 2>(k)",
    "MUL of float64": "k = Cast<to = 11>(i) d = Mul(double, k)",
}


@pytest.mark.parametrize("what", MISSING)
def test_a_type_that_no_kernel_takes_is_named(what: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[1, 4] x) => (float[1, m] y)
    <int64 two = {{2}}, double double = {{2.0}}> {{ i = ArgMax<axis = 1>(x) {MISSING[what]} y = Cast<to = 1>(d) }}"""
    with pytest.raises(UnsupportedError, match=f"d needs {what}"):
        encode_tflite(Graph.from_proto(onnx.parser.parse_model(text)))


def resize(attributes: str, scales: str) -> str:
    count = len(scales.split(","))
    return f"""<ir_version: 9, opset_import: ["": 19]> g (float[N, 2, 9, 8] x) => (float[N, 2, h, w] y)
    <float[{count}] scales = {{{scales}}}> {{ y = Resize<{attributes}>(x, , scales) }}"""


FLOOR = 'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'


def test_the_factors_of_a_resize_may_name_their_axes() -> None:
    x = np.random.default_rng(0).normal(0, 1, (2, 2, 9, 8)).astype(np.float32)
    assert_equals_onnx_runtime(resize(f"{FLOOR}, axes = [-1, 2]", "2.0, 3.0"), x)


SYMMETRIC = 'coordinate_transformation_mode = "half_pixel_symmetric"'


@pytest.mark.parametrize("scales", ["1.0, 1.0, 2.0, 2.0", "1.0, 1.0, 3.0, 1.5"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_symmetric_half_pixels_are_half_pixels_where_no_length_is_rounded(
    mode: str, scales: str
) -> None:
    x = np.random.default_rng(0).normal(0, 1, (2, 2, 9, 8)).astype(np.float32)
    rounding = ', nearest_mode = "round_prefer_ceil"' if mode == "nearest" else ""
    assert_equals_onnx_runtime(resize(f'mode = "{mode}", {SYMMETRIC}{rounding}', scales), x, 1e-5)


REFUSED = {
    "antialias": ('mode = "linear", antialias = 1', "1.0, 1.0, 1.0, 0.5"),
    "symmetric": (f'mode = "linear", {SYMMETRIC}', "1.0, 1.0, 1.7, 1.7"),
    "cropping": ('coordinate_transformation_mode = "tf_crop_and_resize"', "1.0, 1.0, 2.0, 2.0"),
    "by a rounded factor": (f"{FLOOR}, axes = [2, 3]", "1.7, 1.7"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_resize_that_litert_does_not_have_is_refused(what: str) -> None:
    graph = Graph.from_proto(onnx.parser.parse_model(resize(*REFUSED[what])))
    with pytest.raises(UnsupportedError, match="Resize"):
        encode_tflite(graph)


@pytest.mark.parametrize("counts", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "stride", "pads"), [(3, 1, 1), (3, 2, 0), (3, 2, 1), (3, 3, 0), (4, 3, 1), (5, 3, 2)]
)
def test_an_average_counts_what_onnx_counts(
    kernel: int, stride: int, pads: int, ceil: int, counts: int
) -> None:
    x = np.random.default_rng(0).normal(1, 1, (2, 2, 16, 14)).astype(np.float32)
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 2, 16, 14] x) => (float[N, 2, h, w] y)
    {{ y = AveragePool<kernel_shape = [{kernel}, {kernel}], strides = [{stride}, {stride}], ceil_mode = {ceil},
        pads = [{pads}, {pads}, {pads}, {pads}], count_include_pad = {counts}>(x) }}"""
    assert_equals_onnx_runtime(text, x)


@pytest.mark.parametrize("attributes", ["pads = [1, 1, 1, 1]", "ceil_mode = 1"])
def test_an_average_that_integers_do_not_count_stays_float(attributes: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 2, 16, 16] x) => (float[N, 2, h, w] y)
    {{ r = Relu(x) y = AveragePool<kernel_shape = [3, 3], strides = [3, 2], {attributes}>(r) }}"""
    graph = Graph.from_proto(onnx.parser.parse_model(text))
    [why] = rehearse_writing(graph, DEFAULT_TFLITE).values()
    assert why == "LiteRT has no average on integers of windows that are padded like these"


@pytest.mark.parametrize(
    "attributes",
    [
        'auto_pad = "SAME_LOWER"',
        'auto_pad = "SAME_UPPER"',
        "output_shape = [10, 8]",
        "output_shape = [11, 9]",
        'output_shape = [9, 8], auto_pad = "SAME_UPPER"',
        "output_shape = [10, 9], pads = [1, 1, 1, 1]",
        "output_padding = [1, 1], pads = [1, 1, 1, 1]",
        "output_padding = [0, 1], pads = [2, 0, 0, 1]",
    ],
)
def test_a_transposed_convolution_cuts_off_what_onnx_cuts_off(attributes: str) -> None:
    rng = np.random.default_rng(0)
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[1, 2, 5, 4] x) => (float[1, 3, h, w] y)
    {{ y = ConvTranspose<strides = [2, 2], {attributes}>(x, weight) }}"""
    model = onnx.parser.parse_model(text)
    weight = rng.normal(0, 1, (2, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "weight"))
    x = rng.normal(0, 1, (1, 2, 5, 4)).astype(np.float32)
    assert_equals_onnx_runtime(model, x, 1e-5)


GATHERS = {
    "negative": ("n = ArgMax<axis = 1, keepdims = 0>(x) i = Sub(n, three)", True),
    "a matrix of int32": ("n = ArgMax<axis = 1>(x) k = Cast<to = 6>(n) i = Sub(k, three32)", True),
    "from the start": ("n = ArgMax<axis = 1, keepdims = 0>(x) i = Min(n, three)", False),
}


@pytest.mark.parametrize("what", GATHERS)
def test_computed_positions_from_the_end_are_counted_from_the_start(what: str) -> None:
    x = np.eye(5, dtype=np.float32)
    body, wraps = GATHERS[what]
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 5] x) => (float[a, b] y)
    <int64 three = {{3}}, int32 three32 = {{3}}, float[6] table = {{0.5, 1.5, 2.5, 3.5, 4.5, 5.5}},
     int64[2] shape = {{-1, 1}}>
    {{ {body} g = Gather(table, i) y = Reshape(g, shape) }}"""
    content = assert_equals_onnx_runtime(text, x)
    assert (b"i_wrapped" in content) == wraps


def test_the_sign_of_a_long_chain_is_found_once_for_each_value() -> None:
    links = " ".join(f"m{i} = Max(a{i}, zero) a{i + 1} = Min(m{i}, a{i})" for i in range(30))
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 5] x) => (float[N] y)
    <int64 zero = {{0}}, float[5] table = {{0.5, 1.5, 2.5, 3.5, 4.5}}>
    {{ a0 = ArgMax<axis = 1, keepdims = 0>(x) {links} y = Gather(table, a30) }}"""
    content = encode_tflite(Graph.from_proto(onnx.parser.parse_model(text))).content
    assert b"a30_wrapped" not in content
