"""Whole `.tflite` files: layout, batch, inputs and outputs, metadata, and what is refused.

The oracle is LiteRT with its reference kernels, which computes the executor's integers (arithmetic ``litert``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from networks import build_network, gaussian_array
from qdq_builder import QdqBuilder

import ptq
from ptq.core.errors import UnsupportedError, UsageError
from ptq.evaluation.report.litert_check import _find_differences
from ptq.evaluation.report.litert_result import LitertCheck, LitertKernelCheck
from ptq.executor.executor import Executor
from ptq.executor.litert_comparison import compare_with_executor
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.open import open_model
from ptq.model.session.session import Session
from ptq.rewrite.tflite.write import TfliteOptions

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from ptq.model.tflite.interpreter import Kernels, LitertModel, parse_model, read_metadata

SAMPLE = Path(__file__).resolve().parents[3] / "sample_data"
BLOCK = {
    "scale": (32,), "shift": (32,), "wq": (32, 32), "wk": (32, 32), "wv": (32, 32), "w1": (32, 64), "w2": (64, 32),
}  # fmt: skip
TRANSFORMER = """
n = LayerNormalization<axis = -1>(x, scale, shift)
q = MatMul(n, wq)
k = MatMul(n, wk)
v = MatMul(n, wv)
t = Transpose<perm = [0, 2, 1]>(k)
s = MatMul(q, t)
p = Softmax<axis = -1>(s)
a = MatMul(p, v)
r = Add(x, a)
m = LayerNormalization<axis = -1>(r, scale, shift)
h = MatMul(m, w1)
g = Gelu(h)
o = MatMul(g, w2)
y = Add(r, o)
"""
"""A vision transformer's block."""


def small_network(batch: int | str = "N", *, flatten: bool = True) -> Graph:
    """Conv → MaxPool → Flatten → Gemm: the flattened image has more than one position."""
    b = QdqBuilder()
    w = b.weight(4, 3, 3, 3)
    x = b.input([batch, 3, 8, 6], name="image")
    y = b.requantize(
        b.node("Conv", x, w, b.bias(0.05, w, 4), kernel_shape=[3, 3], pads=[1] * 4), 0.4
    )
    y = b.requantize(b.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), 0.4)
    if flatten:
        y = b.requantize(b.node("Flatten", y), 0.4)
        w = b.weight(5, 48)
        y = b.requantize(b.node("Gemm", y, w, b.bias(0.4, w, 5), transB=1), 1.5, 2)
    b.output(y)
    return b.to_graph()


def images(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {"image": rng.normal(0, 2, (count, 3, 8, 6)).astype(np.float32)}


def operators(content: bytes) -> list[str]:
    model = LitertModel(content, kernels="reference")
    return [detail["op_name"] for detail in model._interpreter._get_ops_details()]


@pytest.fixture(scope="module")
def sample_result() -> ptq.Result:
    return ptq.quantize(
        SAMPLE / "fashion_mobilenet.onnx",
        SAMPLE / "images" / "calibration",
        eval_data=SAMPLE / "images" / "evaluation",
        samples=24,
        preprocess=ptq.Preprocess(mean=(0.286,), std=(0.353,)),
        target="litert",
        form="tflite",
        effort="fast",
        rounding="nearest",
        threads=1,
    )


def test_the_sample_network_computes_the_executors_integers_in_litert(sample_result, tmp_path):
    sample_result.save(tmp_path / "m.tflite")
    sample_result.save(tmp_path / "m.onnx")
    content = (tmp_path / "m.tflite").read_bytes()
    executor = Executor(Graph.load(tmp_path / "m.onnx"), "litert")
    feed = {"input": np.random.default_rng(0).normal(0, 1, (16, 1, 28, 28)).astype(np.float32)}
    ours, theirs = executor.run(feed), LitertModel(content, kernels="reference").run(feed)
    np.testing.assert_array_equal(theirs["logits"], ours["logits"])
    assert not {"TRANSPOSE"} & {*operators(content)}


def test_the_file_carries_preprocessing_and_classes(sample_result):
    metadata = read_metadata(sample_result.tflite)
    assert json.loads(metadata["ptq.preprocess"])["mean"] == [0.286]
    assert json.loads(metadata["classes"])[0] == "0_t-shirt"
    assert json.loads(metadata["ptq.orders"]) == {"input": [0, 2, 3, 1], "logits": [0, 1]}
    assert json.loads(metadata["ptq.provenance"])["options"]["form"] == "tflite"


def test_the_signature_names_inputs_and_outputs(sample_result):
    [signature] = parse_model(sample_result.tflite).signatureDefs
    assert [entry.name for entry in signature.inputs] == [b"input"]
    assert [entry.name for entry in signature.outputs] == [b"logits"]


def test_equal_models_give_equal_bytes():
    assert encode_tflite(small_network()).content == encode_tflite(small_network()).content


def test_buffers_begin_at_multiples_of_16_bytes():
    content = encode_tflite(small_network()).content
    for buffer in parse_model(content).buffers:
        if buffer.data is not None and len(buffer.data) > 100:
            assert content.find(np.asarray(buffer.data, np.uint8).tobytes()) % 16 == 0


def test_a_flattened_image_needs_no_transposition():
    content = encode_tflite(small_network()).content
    feed = images(3)
    [ours] = Executor(small_network(), "litert").run(feed).values()
    [theirs] = LitertModel(content, kernels="reference").run(feed).values()
    np.testing.assert_array_equal(theirs, ours)
    assert "TRANSPOSE" not in operators(content)


def test_a_flattened_image_that_is_an_output_is_in_onnxs_order():
    b = QdqBuilder()
    w = b.weight(4, 3, 3, 3)
    y = b.node(
        "Conv", b.input(["N", 3, 8, 6], name="image"), w, b.bias(0.05, w, 4), kernel_shape=[3, 3]
    )
    b.output(b.requantize(b.node("Flatten", b.requantize(y, 0.4)), 0.4))
    graph = b.to_graph()
    [ours] = Executor(graph, "litert").run(images(1)).values()
    [theirs] = (
        LitertModel(encode_tflite(graph).content, kernels="reference").run(images(1)).values()
    )
    np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize(("batch", "shape"), [(None, -1), (1, 1), (2, 2)])
def test_the_batch_stays_open_or_is_fixed(batch: int | None, shape: int):
    content = encode_tflite(small_network(), TfliteOptions(static_batch=batch)).content
    model = LitertModel(content, kernels="reference")
    assert model._input_details["image"]["shape_signature"][0] == shape
    [ours] = Executor(small_network(), "litert").run(images(4)).values()
    [theirs] = model.run(images(4)).values()
    np.testing.assert_array_equal(theirs, ours)


def test_a_batch_that_litert_cannot_leave_open_is_fixed_to_one():
    b = QdqBuilder()
    x = b.input(["N", 2, 3], name="x")
    token = b.constant(np.ones((1, 1, 3), np.float32))
    batch = b.node(
        "Slice", b.node("Shape", x), b.constant(np.array([0])), b.constant(np.array([1]))
    )
    shape = b.node("Concat", batch, b.constant(np.array([1, 3])), axis=0)
    tokens = b.requantize(b.node("Expand", token, shape), 0.05, -3)
    b.output(b.requantize(b.node("Concat", tokens, x, axis=1), 0.05, -3))
    graph = b.to_graph()
    model = LitertModel(encode_tflite(graph).content, kernels="reference")
    assert [*model._input_details["x"]["shape_signature"]] == [1, 2, 3]
    feed = {"x": np.random.default_rng(0).normal(0, 2, (3, 2, 3)).astype(np.float32)}
    [ours], [theirs] = Executor(graph, "litert").run(feed).values(), model.run(feed).values()
    np.testing.assert_array_equal(theirs, ours)


def test_a_model_whose_state_has_another_batch_axis_is_fixed_to_one():
    b = QdqBuilder()
    x, h = b.input(["N", 3], name="x"), b.input([1, "N", 3], name="h")
    state = b.node("Squeeze", h, b.constant(np.array([0])))
    b.output(b.requantize(b.node("Concat", x, state, axis=1), 0.05, -3))
    graph = b.to_graph()
    options = TfliteOptions(shapes={"x": (1, 3), "h": (1, 1, 3)})
    model = LitertModel(encode_tflite(graph, options).content, kernels="reference")
    assert [*model._input_details["h"]["shape_signature"]] == [1, 1, 3]
    assert [*model._input_details["x"]["shape_signature"]] == [1, 3]
    draw = np.random.default_rng(0).normal
    feed = {n: draw(0, 2, s).astype(np.float32) for n, s in options.shapes.items()}
    [ours], [theirs] = Executor(graph, "litert").run(feed).values(), model.run(feed).values()
    np.testing.assert_array_equal(theirs, ours)


def test_inputs_and_outputs_of_int8_have_no_quantizers():
    content = encode_tflite(small_network(), TfliteOptions(io="int8")).content
    assert not {"QUANTIZE", "DEQUANTIZE"} & {*operators(content)}
    model = LitertModel(content, kernels="reference")
    assert model._input_details["image"]["dtype"] is np.int8
    [ours] = Executor(small_network(), "litert").run(images(2)).values()
    [theirs] = model.run(images(2)).values()
    np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize("kernels", ["reference", "xnnpack"])
@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_an_input_of_integers_is_quantized_as_the_file_would_quantize_it(
    kind: type, kernels: Kernels
) -> None:
    scale, most = np.float32(0.0123), np.iinfo(kind).max
    nodes = (
        "q = QuantizeLinear(x, s, z)\nd = DequantizeLinear(q, s, z)\nr = Relu(d)\n"
        "p = QuantizeLinear(r, s, z)\ny = DequantizeLinear(p, s, z)"
    )
    # a multiple of a vector's length: LiteRT's default kernels round the rest of a tensor by another loop
    ties = ((np.arange(2 * most // 32 * 32, dtype=np.float64)[None] - most + 0.5) * scale).astype(
        np.float32
    )
    model = build_network(nodes, {"x": ("n", ties.size)}, opset=21, s=scale, z=kind(0))
    files = [
        encode_tflite(Graph.from_proto(model), TfliteOptions(io)).content
        for io in ("float", "int8")
    ]
    expected, found = (
        LitertModel(content, kernels=kernels).run({"x": ties})["y"] for content in files
    )
    assert "QUANTIZE" in operators(files[0])
    assert "QUANTIZE" not in operators(files[1])
    np.testing.assert_array_equal(found, expected)


def test_inputs_and_outputs_of_float16():
    content = encode_tflite(small_network(), TfliteOptions(io="float16")).content
    model = LitertModel(content, kernels="reference")
    assert model._input_details["image"]["dtype"] is np.float16
    feed = {"image": images(2)["image"].astype(np.float16).astype(np.float32)}
    [ours] = Executor(small_network(), "litert").run(feed).values()
    [theirs] = model.run(feed).values()
    np.testing.assert_array_equal(theirs, ours.astype(np.float16).astype(np.float32))


FLOAT_NODES = {
    "LayerNormalization": "y = LayerNormalization<axis=-1>(x, scale, shift)",
    "Softplus": "y = Softplus(x)",
    "Reciprocal": "s = Abs(x) t = Add(s, scale) y = Reciprocal(t)",
    "ReduceSum": "s = ReduceSum<keepdims=0>(x, last) y = Unsqueeze(s, last)",
    "ReduceL1": "s = ReduceL1<keepdims=0>(x, last) y = Unsqueeze(s, last)",
    "ReduceL2": "y = ReduceL2(x, last)",
    "ReduceL2 of all axes but one": "y = ReduceL2(x, first)",
    "ReduceSumSquare": "y = ReduceSumSquare(x, last)",
    "ReduceProd": "y = ReduceProd(x, last)",
    "CumSum": "y = CumSum(x, axis)",
    "CumSum, from the end": "y = CumSum<exclusive=1, reverse=1>(x, axis)",
    "HardSigmoid": "y = HardSigmoid(x)",
    "Sin": "y = Sin(x)",
}


@pytest.mark.parametrize("op", FLOAT_NODES)
def test_a_float_node_becomes_float_operators_that_are_read_again(op: str):
    text = f"""<ir_version: 9, opset_import: ["": 20]>
    g (float[N, 3, 4] x) => (float[N, 3, m] y)
    <float[4] scale = {{1.0, 0.5, 2.0, 1.5}}, float[4] shift = {{0.0, 1.0, -1.0, 0.5}}, int64[1] last = {{2}},
     int64[2] first = {{-2, 2}}, int64 axis = {{2}}>
    {{ {FLOAT_NODES[op]} }}"""
    graph = Graph.from_proto(onnx.parser.parse_model(text))
    feed = {"x": np.random.default_rng(0).normal(0, 1, (2, 3, 4)).astype(np.float32)}
    content = encode_tflite(graph).content
    [expected] = Session(graph).run(feed)
    [found] = LitertModel(content, kernels="reference").run(feed).values()
    [read] = Session(open_model(content)).run(feed)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(read, expected, rtol=2e-5, atol=2e-5)


def test_positions_of_tokens_are_computed_in_int64():
    text = """<ir_version: 9, opset_import: ["": 20]> g (int64[N, 6] ids) => (float[N, 6, 2] y)
    <int64 padding = {1}, int64 axis = {1},
     float[8, 2] table = {0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5}>
    { e = Equal(ids, padding) n = Not(e) k = Cast<to=6>(n) w = Cast<to=7>(k) c = CumSum(w, axis)
      d = Cast<to=6>(c) p = Mul(d, k) l = Cast<to=7>(p) a = Add(l, padding)
      m = Max(a, padding) y = Gather(table, m) }"""
    graph = Graph.from_proto(onnx.parser.parse_model(text))
    feed = {"ids": np.array([[1, 4, 1, 7, 8, 1], [2, 3, 1, 1, 5, 6]], np.int64)}
    from ptq.model.session.session import Session

    [expected] = Session(graph).run(feed)
    [found] = LitertModel(encode_tflite(graph).content, kernels="reference").run(feed).values()
    np.testing.assert_array_equal(found, expected)


REFUSED = {
    "an operator": ("y = Det(x)", "Det"),
    "three spatial axes": ("y = Conv(c, w)", "spatial axes"),
    "bfloat16": (
        "b = Cast<to=16>(x)\ny = Cast<to=1>(b)",
        r"^b, the result of Cast \(Cast_b\), is bfloat16, which a .tflite file cannot hold",
    ),
    "cubic interpolation": ('y = Resize<mode="cubic">(x, , scales)', "Resize"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_litert_lacks_is_named_before_calibration(what: str, monkeypatch):
    body, named = REFUSED[what]
    shape = "N, 2, 4, 4, 4" if "w)" in body else "N, 2, 8, 8"
    body = body.replace("(c,", "(x,")
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[{shape}] x) => (float[] y)
    <int64 last = {{2}}, float[4] scales = {{1.0, 1.0, 2.0, 2.0}}> {{ {body} }}"""
    proto = onnx.parser.parse_model(text)
    weight = np.ones((2, 2, 3, 3, 3), np.float32)
    if "w)" in body:
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    monkeypatch.setattr(
        "ptq.optimization.pipeline.calibrate_model", lambda *a: pytest.fail("calibrated")
    )
    size = [int(n) if n.isdigit() else 4 for n in shape.split(", ")]
    data = {"x": np.zeros(size, np.float32)}
    with pytest.raises(UnsupportedError, match=named):
        ptq.quantize(proto, [{"x": data["x"][:1]}] * 4, target="litert", form="tflite")


def test_uint8_activations_are_refused():
    b = QdqBuilder()
    b.output(b.requantize(b.node("Sigmoid", b.input(["N", 4])), 1 / 256, 0, np.uint8))
    with pytest.raises(UnsupportedError, match="uint8; LiteRT computes on int8"):
        encode_tflite(b.to_graph())


@pytest.mark.parametrize(
    "options",
    [
        {"target": "ort", "form": "tflite"},
        {"io": "int16"},
        {"form": "tflite", "target": "gemmlowp"},
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any]):
    with pytest.raises(UsageError):
        ptq.quantize(
            SAMPLE / "fashion_mobilenet.onnx", SAMPLE / "images" / "calibration", **options
        )


def test_a_model_too_wide_for_the_reference_softmax_is_not_run_there():
    b = QdqBuilder()
    b.output(b.requantize(b.node("Softmax", b.input(["N", 600])), 1 / 256, -128))
    content = encode_tflite(b.to_graph()).content
    with pytest.raises(UnsupportedError, match="600 values may end the process"):
        LitertModel(content, kernels="reference")
    assert LitertModel(content).outputs


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"\x10\0\0\0TFL3" + b"\xff" * 64])
def test_bytes_that_are_no_tflite_file_are_refused(content: bytes):
    with pytest.raises(ptq.ModelError):
        LitertModel(content)


@pytest.mark.parametrize(
    ("op", "bounds"), [("Relu", ()), ("Clip", (0.0, 6.0)), ("Clip", (-1.0, 1.0))]
)
@pytest.mark.parametrize("before", ["Conv", "Add", "MaxPool"])
def test_a_clamp_of_the_same_scale_is_fused(before: str, op: str, bounds: tuple[float, ...]):
    b = QdqBuilder()
    x = b.input(["N", 3, 8, 6], name="image")
    if before == "Conv":
        w = b.weight(4, 3, 3, 3)
        y = b.node("Conv", x, w, b.bias(0.05, w, 4), kernel_shape=[3, 3])
    else:
        y = b.node("Add", x, x) if before == "Add" else b.node("MaxPool", x, kernel_shape=[2, 2])
    scale = (0.05, -3)
    y = b.node(op, b.requantize(y, *scale), *(b.constant(np.float32(v)) for v in bounds))
    b.output(b.requantize(y, *scale))
    graph = b.to_graph()
    content = encode_tflite(graph).content
    assert not {name for name in operators(content) if name.startswith("RELU")}
    for kernels, arithmetic in (("reference", "litert"), ("xnnpack", "litert-xnnpack")):
        [ours] = Executor(graph, arithmetic).run(images(2)).values()
        [theirs] = LitertModel(content, kernels=kernels).run(images(2)).values()
        np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize("clamp", ["Relu(c)", "Clip(c, zero, six)"])
def test_a_clamp_of_floats_is_fused(clamp: str) -> None:
    model = build_network(
        f"c = Conv<pads = [1, 1, 1, 1]>(x, w)\ny = {clamp}", {"x": (1, 3, 8, 8)},
        w=gaussian_array(4, 3, 3, 3), zero=np.float32(0), six=np.float32(6),
    )  # fmt: skip
    graph = Graph.from_proto(model)
    content = encode_tflite(graph).content
    assert not {name for name in operators(content) if name.startswith("RELU")}
    feed = {"x": gaussian_array(1, 3, 8, 8, scale=2)}
    [expected] = Session(graph).run(feed)
    assert expected.max() <= 6 or "Relu" in clamp
    for kernels in ("reference", "xnnpack"):
        np.testing.assert_allclose(
            LitertModel(content, kernels=kernels).run(feed)["y"], expected, atol=1e-4
        )


@pytest.mark.parametrize("product", ["MatMul(x, v)", "MatMul(u, x)"])
@pytest.mark.parametrize("clamp", ["Relu(c)", "Clip(c, zero, six)"])
def test_a_clamp_behind_a_product_without_a_constant_matrix_stays(product: str, clamp: str) -> None:
    """BATCH_MATMUL has no fused activation."""
    model = build_network(
        f"c = {product}\ny = {clamp}", {"x": (3, 5, 4)}, v=gaussian_array(3, 4, 6),
        u=gaussian_array(2, 5), zero=np.float32(0), six=np.float32(6),
    )  # fmt: skip
    graph = Graph.from_proto(model)
    content = encode_tflite(graph).content
    feed = {"x": gaussian_array(3, 5, 4, scale=2)}
    [expected] = Session(graph).run(feed)
    assert (expected == 0).any()
    for kernels in ("reference", "xnnpack"):
        np.testing.assert_allclose(
            LitertModel(content, kernels=kernels).run(feed)["y"], expected, atol=1e-4
        )


def test_without_litert_the_package_is_named_before_calibration(monkeypatch):
    monkeypatch.setattr("ptq.model.tflite.schema.is_litert_installed", lambda: False)
    monkeypatch.setattr(
        "ptq.optimization.pipeline.calibrate_model", lambda *a: pytest.fail("calibrated")
    )
    from ptq.model.tflite.schema import load_schema

    load_schema.cache_clear()
    with pytest.raises(UnsupportedError, match=r"pip install 'onnx-ptq\[litert\]'"):
        ptq.quantize(
            SAMPLE / "fashion_mobilenet.onnx", SAMPLE / "images" / "calibration",
            target="litert", form="tflite", samples=8,
        )  # fmt: skip


@pytest.mark.parametrize("kernels", ["reference", "xnnpack"])
def test_integers_behind_a_float_part_differ_by_at_most_one_step_and_are_counted(
    kernels: Kernels,
) -> None:
    b = QdqBuilder()
    scale, shift = (b.constant(np.linspace(0.5, 2, 64, dtype=np.float32)) for _ in range(2))
    x = b.node("Add", b.input(["N", 50, 64]), b.constant(np.float32(0.1)))
    y = b.node("LayerNormalization", x, scale, shift, axis=-1)
    b.output(b.requantize(y, 0.02))
    graph = b.to_graph()
    file = encode_tflite(graph)
    rng = np.random.default_rng(0)
    feeds = [{"input0": rng.normal(0, 2, (4, 50, 64)).astype(np.float32)} for _ in range(3)]
    found = compare_with_executor(file.content, graph, feeds, kernels=kernels, orders=file.orders)
    [tally] = found.float_parts.values()
    assert tally.op == "Add LayerNormalization"
    assert tally.elements == 3 * 4 * 50 * 64
    assert tally.largest <= 1
    assert all(not other.differing for other in (found.tensors | found.outputs).values())


@pytest.mark.parametrize("kernels", ["reference", "xnnpack"])
def test_a_wrong_float_part_is_counted_in_the_kernels_that_ran(kernels: Kernels) -> None:
    def build(epsilon: float) -> Any:
        b = QdqBuilder()
        x = b.node("Add", b.input(["N", 50, 64]), b.constant(np.float32(0.1)))
        scale = b.constant(np.ones(64, np.float32))
        y = b.node("LayerNormalization", x, scale, axis=-1, epsilon=epsilon)
        b.output(b.requantize(y, 0.02))
        return b.to_graph()

    file = encode_tflite(build(1e-5))
    feed = {"input0": np.random.default_rng(0).normal(0, 1, (1, 50, 64)).astype(np.float32)}
    found = compare_with_executor(
        file.content, build(1.0), [feed], kernels=kernels, orders=file.orders
    )
    [tally] = found.float_parts.values()
    assert tally.differing > 1000
    assert tally.largest > 1
    [output] = found.outputs.values()
    assert output.differing == 0  # it reads LiteRT's integers


def test_a_vision_transformers_block_differs_in_its_normalizations_only() -> None:
    weights = {name: gaussian_array(*shape) / 6 for name, shape in BLOCK.items()}
    shapes = {"x": (1, 20, 32)}
    model = build_network(TRANSFORMER, shapes, opset=20, **weights)
    samples = {"x": gaussian_array(64, 20, 32).astype(np.float32)}
    result = ptq.quantize(model, samples, target="litert", form="tflite", effort="fast")
    check = result.report.litert
    assert check is not None
    for kernels in check.kernels:
        assert (kernels.float_islands, kernels.differing) == (2, 0)
        assert kernels.float_largest <= 1


@pytest.mark.parametrize(("steps", "serious"), [(1, False), (2, True)])
def test_a_float_part_that_differs_by_more_than_one_step_is_a_finding(
    steps: int, serious: bool
) -> None:
    kernels = LitertKernelCheck("reference", "litert", 100, 3, "t", 2, 3, steps)
    found = [*_find_differences(LitertCheck("2.3.0", 8, (kernels,)))]
    assert bool(found) == serious
    assert f"behind float parts 3 values by at most {steps} step" in str(kernels)


@pytest.mark.parametrize(("difference", "serious"), [(0.02, False), (0.5, True)])
def test_an_output_that_is_far_off_is_a_finding_behind_float_parts_too(
    difference: float, serious: bool
) -> None:
    kernels = LitertKernelCheck("reference", "litert", 100, 3, "y", 2, 0, 0, difference)
    assert bool([*_find_differences(LitertCheck("2.3.0", 8, (kernels,)))]) == serious


def test_the_difference_of_a_float_output_is_measured_against_its_largest_value() -> None:
    def build(shift: float) -> Graph:
        network = build_network("y = Add(x, b)", {"x": (1, 4)}, b=np.full(4, shift, np.float32))
        return Graph.from_proto(network)

    file = encode_tflite(build(0.0))
    feed = {"x": np.array([[1.0, -2.0, 0.5, 4.0]], np.float32)}
    found = compare_with_executor(
        file.content, build(1.0), [feed], kernels="reference", orders=file.orders
    )
    [output] = found.outputs.values()
    assert output.largest_share == pytest.approx(1 / 5)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.filterwarnings("error")
def test_outputs_that_are_not_finite_are_equal_if_they_are_the_same(value: float) -> None:
    def build(mask: float, shift: float) -> Graph:
        added = np.array([0, mask, shift, 0], np.float32)
        return Graph.from_proto(build_network("y = Add(x, b)", {"x": (1, 4)}, b=added))

    def compare(mask: float, shift: float) -> Any:
        return compare_with_executor(
            file.content, build(mask, shift), [feed], kernels="reference", orders=file.orders
        ).outputs["y"]

    file = encode_tflite(build(value, 0.0))
    feed = {"x": np.array([[1.0, -2.0, 0.5, 4.0]], np.float32)}
    same, shifted, other = compare(value, 0.0), compare(value, 0.5), compare(1.0, 0.0)
    assert (same.differing, same.largest_share) == (0, 0.0)
    assert (shifted.differing, shifted.largest_share) == (1, pytest.approx(0.5 / 4))
    assert other.differing == 1
    assert other.largest_share > 1e30  # LiteRT's reference kernels clamp an infinity
