"""Graphs as other tools quantize them: ONNX Runtime, all its optimizations on, is the oracle of every integer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers, random_samples
from foreign_patterns import (
    CONV_WEIGHT,
    GEMM_WEIGHT,
    IMAGE_SHAPE,
    MATRIX_SHAPE,
    PATTERNS,
    UNSIGNED_RELU,
    WEIGHT_DEQUANTIZER,
)
from networks import gaussian_array
from old_runtime import skip_before
from onnx import TensorProto, helper

from ptq.core.errors import DataError, ModelError
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.evaluation.runs.engines import make_integer_engine
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.verification.lint import lint_graph
from ptq.verification.node_status import list_node_statuses
from ptq.verification.ort_fusions import find_tensors_from_float
from ptq.verification.ort_like_executor import build_ort_like_executor
from ptq.verification.portability import measure_portability
from ptq.verification.verify import verify_graph

FUSED_SINCE_1_27 = (
    "a Gemm with a float C and alpha",
    "a Conv with an int32 bias of another scale than input times weight",
    "a weight zero point a channel",
)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_of_other_tools_gives_onnx_runtimes_integers(name):
    skip_before((1, 27) if name in FUSED_SINCE_1_27 else (1, 23), "fuses this pattern otherwise")
    pattern = PATTERNS[name]
    graph = foreign_graph(
        INPUT_QDQ + pattern.nodes + OUTPUT_QDQ,
        pattern.shape,
        opset=pattern.opset,
        **pattern.constants,
    )
    found = verify_graph(graph, random_samples(pattern.shape), run=RunOptions(threads=1))
    assert found.equal, found.first
    assert {tensor.op for tensor in found.tensors} == pattern.integer_ops


def test_quantizers_without_zero_points_count_in_unsigned_bytes():
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale)\nxd = DequantizeLinear(xq, x_scale)\n"
        "wd = DequantizeLinear(w, w_scale)\nr = Conv(xd, wd)\n"
        "yq = QuantizeLinear(r, y_scale)\ny = DequantizeLinear(yq, y_scale)",
        **CONV_WEIGHT,
    )
    found = verify_graph(graph, random_samples(IMAGE_SHAPE), run=RunOptions(threads=1))
    assert found.equal
    assert {tensor.op for tensor in found.tensors} == {"QuantizeLinear", "Conv"}


def test_an_output_type_names_the_integers_of_a_quantizer_without_zero_point():
    graph = foreign_graph(
        "xq = QuantizeLinear<output_dtype = 3>(x, x_scale)\nxd = DequantizeLinear(xq, x_scale)\n"
        "y = MaxPool<kernel_shape = [2, 2]>(xd)",
        opset=21,
    )
    found = verify_graph(graph, random_samples(IMAGE_SHAPE), run=RunOptions(threads=1))
    assert found.equal
    assert found.tensors[0].elements == 4 * 3 * 64


@pytest.mark.parametrize("scale", [-0.01, 0.0, np.nan, np.inf])
def test_a_scale_that_is_not_positive_is_refused_by_the_tensor(scale):
    scales = np.full(8, 0.01, np.float32)
    scales[3] = scale
    graph = foreign_graph(
        INPUT_QDQ + "wd = DequantizeLinear<axis = 0>(w, w_scale, w_zero)\nr = Conv(xd, wd)" + OUTPUT_QDQ,
        **CONV_WEIGHT, w_scale=scales, w_zero=np.zeros(8, np.int8),
    )  # fmt: skip
    for verb in (
        lint_graph,
        list_node_statuses,
        lambda given: verify_graph(given, random_samples(IMAGE_SHAPE), run=RunOptions(threads=1)),
    ):
        with pytest.raises(ModelError, match=r"^tensor w has scale \S+, which is not positive and"):
            verb(graph)


GATHERED = "wd = DequantizeLinear(w, w_scale, w_zero)\ny = Gather(wd, x)"


def test_a_sample_that_onnx_runtime_refuses_is_a_fault_of_the_sample():
    graph = foreign_graph(GATHERED, ("N",), input_type=TensorProto.INT64, w=random_integers(5, 4))
    ours = make_integer_engine(build_ort_like_executor(graph, "ort"), graph)
    assert ours({"x": np.array([4])})[0].shape == (1, 4)
    with pytest.raises(DataError, match="indices element out of data bounds"):
        ours({"x": np.array([5])})
    with pytest.raises(DataError, match=r"^row: ONNX Runtime cannot run the sample"):
        measure_portability(graph, [Sample("row", {"x": np.array([5])}, ())])


def test_integers_may_enter_and_leave_a_model():
    skip_before((1, 21), "does not quantize a float bias")
    graph = foreign_graph(
        "xd = DequantizeLinear(x, x_scale, x_zero)\n"
        + WEIGHT_DEQUANTIZER
        + "r = Conv(xd, wd, b)\ny = QuantizeLinear(r, y_scale, y_zero)",
        input_type=TensorProto.UINT8,
        outputs={"y": TensorProto.UINT8},
        b=gaussian_array(8),
        **CONV_WEIGHT,
    )
    found = verify_graph(
        graph, random_samples(IMAGE_SHAPE, dtype=np.uint8), run=RunOptions(threads=1)
    )
    assert found.equal
    assert [tensor.op for tensor in found.tensors] == ["Conv"]


def test_int8_activations_are_read_without_changing_what_onnx_runtime_fuses():
    skip_before((1, 21), "does not quantize a float bias")
    signed = {"x_zero": np.int8(-8), "y_zero": np.int8(-20)}
    graph = foreign_graph(
        INPUT_QDQ + WEIGHT_DEQUANTIZER + "r = Conv(xd, wd, b)" + OUTPUT_QDQ,
        **CONV_WEIGHT,
        b=gaussian_array(8),
        **signed,
    )
    found = verify_graph(graph, random_samples(IMAGE_SHAPE), run=RunOptions(threads=1))
    assert found.equal
    assert {tensor.op for tensor in found.tensors} == {"QuantizeLinear", "Conv"}
    assert not found.islands


def test_what_onnx_runtime_leaves_float_around_an_int8_residual_is_not_compared():
    signed = {"x_zero": np.int8(-8), "y_zero": np.int8(-20), "w": random_integers(3, 3, 3, 3)}
    nodes = PATTERNS["several dequantizers after one quantizer"].nodes
    found = verify_graph(
        foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **signed),
        random_samples(IMAGE_SHAPE),
        run=RunOptions(threads=1),
    )
    assert found.equal
    assert "Add" in {op for ops in found.islands.values() for op in ops}


def test_integers_follow_onnx_runtime_around_an_int8_residual():
    """Oracle: ONNX Runtime's own output; QLinearAdd and a float sum round ties otherwise."""
    signed = {"x_zero": np.int8(-8), "y_zero": np.int8(-20), "w": random_integers(3, 3, 3, 3)}
    nodes = PATTERNS["several dequantizers after one quantizer"].nodes
    graph = foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **signed)
    following = build_ort_like_executor(graph)
    assert "Add" in {op for ops in following.islands.values() for op in ops}
    assert not build_ort_like_executor(graph, "litert").islands
    session = Session(graph, threads=1)
    for sample in random_samples(IMAGE_SHAPE):
        np.testing.assert_array_equal(following.run(sample.feed)["y"], session.run(sample.feed)[0])


def test_a_conv_bias_of_a_far_scale_keeps_its_real_value_in_integers():
    pattern = PATTERNS["a Conv with an int32 bias of another scale than input times weight"]
    graph = foreign_graph(INPUT_QDQ + pattern.nodes + OUTPUT_QDQ, **pattern.constants)
    feed = random_samples(IMAGE_SHAPE)[0].feed
    real = Session(graph, threads=1, optimize="none").run(feed)[0]
    steps = (Executor(graph).run(feed)["y"] - real) / np.float32(0.11)
    assert np.abs(steps).max() < 1.01


def _four_bits(shape: tuple[int, ...]) -> Any:
    data = np.random.default_rng(0).integers(-7, 8, int(np.prod(shape)))
    return helper.make_tensor("w", TensorProto.INT4, shape, data)


def _eight_bit_floats(shape: tuple[int, ...]) -> Any:
    data = np.random.default_rng(0).normal(0, 1, int(np.prod(shape)))
    return helper.make_tensor("w", TensorProto.FLOAT8E4M3FN, shape, data)


BEYOND = {
    "weights in int4": (
        "wd = DequantizeLinear(w, w_scale)\nr = MatMul(xd, wd)",
        {"w": _four_bits((16, 8))},
        "must stay float: weight wd is quantized as int4",
    ),
    "weights in blocks": (
        "wd = DequantizeLinear<axis = 0, block_size = 4>(w, w_scale)\nr = MatMul(xd, wd)",
        {**GEMM_WEIGHT, "w_scale": np.full((4, 8), 0.01, np.float32)},
        "must stay float: weight wd is quantized in blocks",
    ),
    "weights in float8": (
        "wd = DequantizeLinear(w, w_scale)\nr = MatMul(xd, wd)",
        {"w": _eight_bit_floats((16, 8))},
        "must stay float: weight wd is quantized as float8e4m3fn",
    ),
    "activations in int16": (
        WEIGHT_DEQUANTIZER + "xr = DequantizeLinear(xs, y_scale, z16)\nr = MatMul(xr, wd)",
        GEMM_WEIGHT | {"z16": np.int16(0)},
        "must stay float: activation xr is int16",
    ),
    "an output in uint16": (
        WEIGHT_DEQUANTIZER + "m = MatMul(xd, wd)\nmq = QuantizeLinear(m, y_scale, z16)\n"
        "r = DequantizeLinear(mq, y_scale, z16)",
        GEMM_WEIGHT | {"z16": np.uint16(3000)},
        "must stay float: output m is uint16",
    ),
    "a float weight": (
        "r = MatMul(xd, w)",
        {"w": gaussian_array(16, 8)},
        "must stay float: weight w is a float constant",
    ),
    "a weight that is computed": (
        "t = Transpose(xd)\ntq = QuantizeLinear(t, y_scale, y_zero)\n"
        "td = DequantizeLinear(tq, y_scale, y_zero)\nm = Gemm(td, xd)\n"
        "mq = QuantizeLinear(m, y_scale, y_zero)\nmd = DequantizeLinear(mq, y_scale, y_zero)\n"
        "r = MatMul(md, md)",
        {},
        "must stay float: weight xq is not constant",
    ),
    "a C that beta scales": (
        WEIGHT_DEQUANTIZER + "bd = DequantizeLinear(b, b_scale)\nr = Gemm<beta = 0.5>(xd, wd, bd)",
        GEMM_WEIGHT | {"b": np.arange(8, dtype=np.int32), "b_scale": np.float32(0.0003)},
        "must stay float: beta scales bias b",
    ),
    "a C that is a matrix": (
        WEIGHT_DEQUANTIZER + "bd = DequantizeLinear(b, b_scale)\nr = Gemm(xd, wd, bd)",
        GEMM_WEIGHT | {"b": np.ones((5, 8), np.int32), "b_scale": np.float32(0.0003)},
        "must stay float: bias b does not have one value for each column",
    ),
    "weight scales along the rows": (
        "wd = DequantizeLinear<axis = 0>(w, w_scale, w_zero)\nr = Gemm(xd, wd)",
        GEMM_WEIGHT
        | {
            "w_scale": np.linspace(0.01, 0.02, 16, dtype=np.float32),
            "w_zero": np.zeros(16, np.int8),
        },
        "must stay float: weight w has its scales along axis 0, not along the output channels",
    ),
    "two readers of a result": (
        WEIGHT_DEQUANTIZER
        + "m = MatMul(xd, wd)\nn = Erf(m)\nmq = QuantizeLinear(m, y_scale, y_zero)\n"
        "md = DequantizeLinear(mq, y_scale, y_zero)\nr = Add(n, md)",
        GEMM_WEIGHT,
        "must stay float: output m has 2 readers; it needs exactly one, a QuantizeLinear",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_eight_bits_is_named_node_by_node(name):
    nodes, constants, reason = BEYOND[name]
    if "xs" in nodes:
        nodes = "xs = QuantizeLinear(xd, y_scale, z16)\n" + nodes
    graph = foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, MATRIX_SHAPE, opset=21, **constants)
    product = next(fate for fate in list_node_statuses(graph) if fate.op in ("MatMul", "Gemm"))
    assert (product.runs, product.why) == ("float", reason)


# ONNX Runtime 1.31 itself fails on the first two: it has no float8 here, and hands blocks to QLinearMatMul
@pytest.mark.parametrize("name", [n for n in BEYOND if n.split()[-1] not in ("float8", "blocks")])
def test_what_is_beyond_eight_bits_leaves_the_integers_around_it_comparable(name):
    if name == "weight scales along the rows":
        skip_before((1, 27), "fuses this pattern otherwise")
    nodes, constants, _ = BEYOND[name]
    if "xs" in nodes:
        nodes = "xs = QuantizeLinear(xd, y_scale, z16)\n" + nodes
    graph = foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, MATRIX_SHAPE, opset=21, **constants)
    assert verify_graph(graph, random_samples(MATRIX_SHAPE), run=RunOptions(threads=1)).equal


def test_a_node_whose_work_a_neighbour_does_is_said_to_be_folded():
    pattern = PATTERNS["a MatMul and a float bias that is added"]
    graph = foreign_graph(INPUT_QDQ + pattern.nodes + OUTPUT_QDQ, MATRIX_SHAPE, **pattern.constants)
    assert {fate.op: fate.runs for fate in list_node_statuses(graph)} == {
        "MatMul": "folded",
        "Add": "folded",
    }


def test_an_idle_clamp_is_taken_away_exactly_where_onnx_runtime_does():
    skip_before((1, 27), "takes other clamps away")
    bounds = [(6.0, 6.01 / 255), (6.0, 6.015 / 255), (6.0, 5.9 / 255), (6.0, 6.1 / 255)]
    for high, scale in bounds:
        constants = {
            "high": np.float32(high),
            "low": np.float32(0),
            "y_scale": np.float32(scale),
            **UNSIGNED_RELU,
            **CONV_WEIGHT,
        }
        nodes = WEIGHT_DEQUANTIZER + "c = Conv(xd, wd)\nr = Clip(c, low, high)"
        graph = foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, **constants)
        ours = all(node.op_type != "Clip" for node in normalize_qdq(graph).nodes)
        assert ours == _fuses(graph), (high, scale)


def _fuses(graph: Graph) -> bool:
    """Whether ONNX Runtime's own optimized graph has an integer kernel write yq."""
    exposed = graph.copy()
    exposed.add_outputs(["yq"])
    return "yq" not in find_tensors_from_float(exposed)


def _tied_sum() -> Graph:
    """An Add whose sums fall on ties: scales are powers of two and the zero point is odd."""
    return foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\nxd = DequantizeLinear(xq, x_scale, x_zero)\n"
        "wd = DequantizeLinear(w, w_scale, w_zero)\nr = Add(xd, wd)\n" + OUTPUT_QDQ,
        w=random_integers(1, 3, 8, 8, dtype=np.uint8),
        x_scale=np.float32(1 / 64),
        w_scale=np.float32(1 / 64),
        w_zero=np.uint8(128),
        y_scale=np.float32(1 / 32),
        y_zero=np.uint8(101),
    )


def test_without_optimizations_differences_are_explained_and_are_no_failure():
    found = verify_graph(
        _tied_sum(), random_samples(IMAGE_SHAPE), optimize=False, run=RunOptions(threads=1)
    )
    assert found.first is not None
    assert (found.first.op, found.first.largest) == ("Add", 1)
    assert found.passed
    assert "before rounding" in found.explanations["Add"]


def test_with_optimizations_the_same_sums_are_equal_and_nothing_is_to_explain():
    found = verify_graph(_tied_sum(), random_samples(IMAGE_SHAPE), run=RunOptions(threads=1))
    assert found.equal
    assert found.explanations == {}


def test_with_optimizations_another_arithmetic_does_not_pass():
    found = verify_graph(
        _tied_sum(), random_samples(IMAGE_SHAPE), arithmetic="litert", run=RunOptions(threads=1)
    )
    assert not found.passed


OLD_SOFTMAX = {"y_scale": np.float32(1 / 256), "y_zero": np.uint8(0)}


@pytest.mark.parametrize(
    ("attribute", "opset"),
    [("", 11), ("<axis = 1>", 11), ("<axis = -2>", 12), ("<axis = 3>", 11), ("<axis = 1>", 13)],
)
def test_before_opset_13_softmax_runs_along_all_axes_from_one_on(attribute, opset):
    graph = foreign_graph(
        INPUT_QDQ + f"r = Softmax{attribute}(xd)" + OUTPUT_QDQ, opset=opset, **OLD_SOFTMAX
    )
    found = verify_graph(graph, random_samples(IMAGE_SHAPE), run=RunOptions(threads=1))
    assert found.equal
    assert "Softmax" in {tensor.op for tensor in found.tensors}


@pytest.mark.parametrize(
    "node",
    [
        "QLinearGlobalAveragePool<channels_last = 1>",
        "QLinearAveragePool<channels_last = 1, kernel_shape = [2, 2]>",
    ],
)
def test_integer_operators_of_another_layout_are_left_to_onnx_runtime(node):
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\n"
        f"yq = com.microsoft.{node}(xq, x_scale, x_zero, y_scale, y_zero)\n"
        "y = DequantizeLinear(yq, y_scale, y_zero)",
        **OLD_SOFTMAX,
    )
    found = verify_graph(graph, random_samples(IMAGE_SHAPE), run=RunOptions(threads=1))
    assert found.equal
    assert {tensor.op for tensor in found.tensors} == {"QuantizeLinear"}


def test_float_averages_are_taken_in_blocks_of_channels_as_onnx_runtime_takes_them():
    shape = (1, 16, 12, 12)
    pool = "e = Elu(xd)\nr = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(e)\n"
    graph = foreign_graph(
        INPUT_QDQ + pool + "y = Mul(r, r)", shape, x_scale=np.float32(0.03), x_zero=np.uint8(7)
    )
    ours, theirs = build_ort_like_executor(graph), Session(graph, threads=1)
    assert ours.islands
    for sample in random_samples(shape, 4):
        (expected,) = theirs.run(sample.feed)
        np.testing.assert_array_equal(ours.run(sample.feed)["y"], expected)


def test_what_stays_float_runs_as_onnx_runtime_runs_it_in_the_whole_graph():
    """Its basic optimizations make int32 of the float bias of a ConvTranspose, which has no integer kernel."""
    layer = "wd = DequantizeLinear(w, w_scale, w_zero)\nr = ConvTranspose(xd, wd, b)\n"
    small = {"y_scale": np.float32(0.02), "y_zero": np.uint8(128)}
    graph = foreign_graph(
        INPUT_QDQ + layer + OUTPUT_QDQ, w=random_integers(3, 8, 3, 3), b=gaussian_array(8), **small
    )
    ours, theirs = build_ort_like_executor(graph), Session(graph, threads=1)
    assert ours.islands
    for sample in random_samples(IMAGE_SHAPE, 16, scale=0.3):
        (expected,) = theirs.run(sample.feed)
        np.testing.assert_array_equal(ours.run(sample.feed)["y"], expected)


def test_a_resize_between_quantizers_is_float_for_its_own_reason_only():
    resize = INPUT_QDQ + 'y = Resize<mode = "nearest">(xd, , factors)'
    factors = np.array([1, 1, 2, 2], np.float32)
    [status] = list_node_statuses(foreign_graph(resize, factors=factors), "litert")
    assert status.why == "must stay float: output y is a float output of the model"


def test_a_result_that_is_quantized_at_run_time_is_float_for_that_reason():
    graph = foreign_graph(
        "wd = DequantizeLinear(w, w_scale, w_zero)\nr = Gather(wd, x)\n"
        "q, s, z = DynamicQuantizeLinear(r)\ni = MatMulInteger(q, v, z)\nf = Cast<to = 1>(i)\ny = Mul(f, s)",
        ("N",),
        input_type=TensorProto.INT64,
        w=random_integers(5, 4),
        v=random_integers(4, 3),
    )
    why = {status.op: status.why for status in list_node_statuses(graph)}
    assert why["Gather"] == "must stay float: output r has a scale that is computed at run time"
