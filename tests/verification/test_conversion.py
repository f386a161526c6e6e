"""Both forms of a quantized graph, there and back: ONNX Runtime's optimized kernels are the oracle, bit for bit."""

from __future__ import annotations

from collections import Counter

import exact_sums
import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers, random_samples
from networks import gaussian_array
from old_runtime import skip_before
from onnx import TensorProto

from ptq.core.errors import UnsupportedError, UsageError
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, get_attributes, get_constant, get_name, get_operator
from ptq.model.session.session import Session
from ptq.solver.recipe import QuantizedForm
from ptq.verification.conversion import convert_graph, list_float_statuses, list_unconverted

CONV = (1, 3, 8, 8)
ROWS = (5, 16)
WD = "wd = DequantizeLinear(w, w_scale, w_zero)\n"
WD_ROWS = "wd = DequantizeLinear<axis = 0>(w, w_scale, w_zero)\n"
PER_CHANNEL = {
    "w_scale": np.linspace(0.005, 0.02, 8, dtype=np.float32),
    "w_zero": np.zeros(8, np.int8),
}
IN_FLOAT = "ONNX Runtime computes it in float between quantizers"
HALF = {"y_scale": np.float32(1 / 256), "y_zero": np.uint8(0)}

# name: nodes between the quantizers, input shape, constants, QLinear operators that they become
LAYERS = {
    "Conv without bias": (
        WD + "r = Conv(xd, wd)",
        CONV,
        {"w": random_integers(8, 3, 3, 3)},
        "QLinearConv",
    ),
    "Conv a channel": (
        WD_ROWS + "r = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(xd, wd, b)",
        CONV,
        {"w": random_integers(8, 3, 3, 3), "b": gaussian_array(8), **PER_CHANNEL},
        "QLinearConv",
    ),
    "Conv in groups": (
        WD + 'r = Conv<group = 3, auto_pad = "SAME_UPPER">(xd, wd, b)',
        CONV,
        {"w": random_integers(6, 1, 3, 3), "b": gaussian_array(6)},
        "QLinearConv",
    ),
    "Gemm": (
        WD + "r = Gemm(xd, wd, b)",
        ROWS,
        {"w": random_integers(16, 8), "b": gaussian_array(8)},
        "com.microsoft::QGemm",
    ),
    "Gemm transposed, a channel": (
        WD_ROWS + "r = Gemm<transB = 1>(xd, wd, b)",
        ROWS,
        {"w": random_integers(8, 16), "b": gaussian_array(8), **PER_CHANNEL},
        "com.microsoft::QGemm",
    ),
    "Gemm with alpha": (
        WD + "r = Gemm<alpha = 0.75>(xd, wd)",
        ROWS,
        {"w": random_integers(16, 8)},
        "com.microsoft::QGemm",
    ),
    "MatMul a column": (
        "wd = DequantizeLinear<axis = 1>(w, w_scale, w_zero)\nr = MatMul(xd, wd)",
        (2, 5, 16),
        {"w": random_integers(16, 8), **PER_CHANNEL},
        "QLinearMatMul",
    ),
    "Add of a broadcast constant": (
        WD + "r = Add(xd, wd)",
        CONV,
        {"w": random_integers(3, 1, 1, dtype=np.uint8), "w_zero": np.uint8(90)},
        "com.microsoft::QLinearAdd",
    ),
    "Mul": ("r = Mul(xd, xd)", CONV, {}, "com.microsoft::QLinearMul"),
    "Sigmoid": ("r = Sigmoid(xd)", CONV, HALF, "com.microsoft::QLinearSigmoid"),
    "LeakyRelu": ("r = LeakyRelu<alpha = 0.2>(xd)", CONV, {}, "com.microsoft::QLinearLeakyRelu"),
    "Softmax": ("r = Softmax<axis = 1>(xd)", ROWS, HALF, "com.microsoft::QLinearSoftmax"),
    "AveragePool": (
        "r = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(xd)",
        CONV,
        {},
        "com.microsoft::QLinearAveragePool",
    ),
    "GlobalAveragePool": (
        "r = GlobalAveragePool(xd)",
        CONV,
        {},
        "com.microsoft::QLinearGlobalAveragePool",
    ),
    "Concat of two scales": (
        WD + "r = Concat<axis = 1>(xd, wd)",
        CONV,
        {"w": random_integers(1, 2, 8, 8, dtype=np.uint8), "w_zero": np.uint8(7)},
        "com.microsoft::QLinearConcat",
    ),
}


def _layer(name: str, opset: int = 17) -> tuple[Graph, tuple[int, ...], str]:
    nodes, shape, constants, form = LAYERS[name]
    return (
        foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, shape, opset=opset, **constants),
        shape,
        form,
    )


def _names(graph: Graph) -> list[str]:
    return [get_name(value) for value in (*graph.inputs, *graph.outputs)]


def _same_everywhere(graphs: list[Graph], shape: tuple[int, ...], dtype: type = np.float32) -> None:
    sessions = [Session(graph, threads=1) for graph in graphs]
    executors = [Executor(graph) for graph in graphs]
    outputs = [get_name(value) for value in graphs[0].outputs]
    for sample in random_samples(shape, dtype=dtype):
        first = sessions[0].run(sample.feed)
        for session, executor in zip(sessions, executors, strict=True):
            ours = executor.run(sample.feed)
            for name, expected, theirs in zip(
                outputs, first, session.run(sample.feed), strict=True
            ):
                assert np.array_equal(theirs, expected)
                assert np.array_equal(ours[name], expected)


@pytest.mark.parametrize("name", LAYERS)
def test_there_and_back_is_the_same_integer_function(name):
    skip_before((1, 21), "does not quantize a float bias")
    qdq, shape, form = _layer(name)
    qoperator = convert_graph(qdq, "qoperator")
    again = convert_graph(qoperator, "qdq")
    assert Counter(map(get_operator, qoperator.nodes))[form] == 1
    assert form not in map(get_operator, again.nodes)
    assert _names(qdq) == _names(qoperator) == _names(again)
    _same_everywhere([qdq, qoperator, again], shape)


@pytest.mark.parametrize("name", ["Conv a channel", "Gemm", "Softmax", "Concat of two scales"])
def test_integer_tensors_keep_their_names(name):
    qdq, _, _ = _layer(name)
    qoperator = convert_graph(qdq, "qoperator")
    for graph in (qoperator, convert_graph(qoperator, "qdq")):
        assert {"xq", "yq"} <= {value.name for node in graph.nodes for value in node.outputs}


def test_a_float_operator_has_the_name_of_the_integer_one():
    skip_before((1, 21), "does not quantize a float bias")
    qoperator = convert_graph(_layer("Conv a channel")[0], "qoperator")
    integer = next(node for node in qoperator.nodes if get_operator(node) == "QLinearConv")
    real = next(
        node for node in convert_graph(qoperator, "qdq").nodes if get_operator(node) == "Conv"
    )
    assert real.name == integer.name


@pytest.mark.parametrize("opset", [13, 17, 21, 23])
def test_conversion_works_in_every_opset_of_the_float_operators(opset):
    skip_before((1, 26) if opset > 21 else (1, 21), "does not run all operators of this opset")
    for name in ("Conv a channel", "Gemm", "Softmax", "AveragePool"):
        qdq, shape, _ = _layer(name, opset)
        qoperator = convert_graph(qdq, "qoperator")
        _same_everywhere([qdq, qoperator, convert_graph(qoperator, "qdq")], shape)


def test_what_moves_integers_stands_between_quantizers_in_qdq():
    nodes = """
        m = MaxPool<kernel_shape = [2, 2]>(x)
        p = Pad(m, pads, x_zero)
        c = Clip(p, low, high)
        y = Transpose<perm = [0, 2, 3, 1]>(c)
        xd = DequantizeLinear(x, x_scale, x_zero)
        z = Sigmoid(xd)
    """
    graph = foreign_graph(
        nodes,
        input_type=TensorProto.UINT8,
        outputs={"y": TensorProto.UINT8, "z": TensorProto.FLOAT},
        pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        low=np.uint8(20),
        high=np.uint8(200),
    )
    # the meaning of x is only known behind its first readers: they stay on integers
    assert Counter(map(get_operator, convert_graph(graph, "qdq").nodes))["QuantizeLinear"] == 0
    known = foreign_graph(
        INPUT_QDQ + nodes.replace("(x)", "(xq)").replace("xd = Deq", "xe = Deq").replace("(x,", "(xq,")
        .replace("Sigmoid(xd)", "Sigmoid(xe)"),
        outputs={"y": TensorProto.UINT8, "z": TensorProto.FLOAT},
        pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        low=np.uint8(20),
        high=np.uint8(200),
    )  # fmt: skip
    qdq = convert_graph(known, "qdq")
    assert Counter(map(get_operator, qdq.nodes))["QuantizeLinear"] == 5
    _same_everywhere([known, qdq], CONV)


def test_qgemms_alpha_scales_its_bias_too_and_the_qdq_form_says_so():
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\n"
        "yq = com.microsoft.QGemm<alpha = 0.5>"
        "(xq, x_scale, x_zero, w, w_scale, w_zero, b, y_scale, y_zero)\n"
        "y = DequantizeLinear(yq, y_scale, y_zero)",
        ROWS,
        w=random_integers(16, 8),
        b=random_integers(8, dtype=np.int16).astype(np.int32),
    )
    qdq = convert_graph(graph, "qdq")
    sample = random_samples(ROWS)[0].feed
    integers = Session(graph, threads=1).run(sample)[0]
    in_float = Session(qdq, threads=1, optimize="none").run(sample)[0]
    # float32 sums may fall on the other side of a tie: by one step at most
    assert np.abs(integers - in_float).max() <= np.float32(0.11) * 1.001
    assert np.array_equal(Executor(qdq).run(sample)["y"], integers)


def test_integer_operators_of_dynamic_quantization_stay():
    graph = foreign_graph(
        "q, s, z = DynamicQuantizeLinear(x)\ni = MatMulInteger(q, w, z)\n"
        "f = Cast<to = 1>(i)\ny = Mul(f, s)",
        ROWS,
        w=random_integers(16, 8),
    )
    for form in ("qdq", "qoperator"):
        kept = [get_operator(node) for node in convert_graph(graph, form).nodes]
        assert kept == ["DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul"]


MIXED = {
    "int8 results of uint8": {"w": random_integers(8, 3, 3, 3), "y_zero": np.int8(-20)},
    "uint8 results of int8": {"w": random_integers(8, 3, 3, 3), "x_zero": np.int8(3)},
    "int8 beside uint8 weights": {
        "x_zero": np.int8(0),
        "y_zero": np.int8(-20),
        "w": random_integers(8, 3, 3, 3, dtype=np.uint8),
        "w_zero": np.uint8(128),
    },
}


@pytest.mark.parametrize("name", MIXED)
def test_int8_meets_uint8_in_uint8(name):
    graph = foreign_graph(INPUT_QDQ + WD + "r = Conv(xd, wd)" + OUTPUT_QDQ, **MIXED[name])
    linear = convert_graph(graph, "qoperator", integers=True)
    assert "QLinearConv" in map(get_operator, linear.nodes)
    assert list_unconverted(linear) == ()
    zeros = [get_constant(n.inputs[2]) for n in linear.nodes if get_operator(n) in QUANTIZERS]
    assert all(zero is not None and zero.dtype == np.uint8 for zero in zeros)
    _same_everywhere([graph, linear], CONV)


RESIDUAL = (
    INPUT_QDQ
    + WD
    + """
    a = Conv<pads = [1, 1, 1, 1]>(xd, wd)
    aq = QuantizeLinear(a, y_scale, y_zero)
    ad = DequantizeLinear(aq, y_scale, y_zero)
    c = Conv<pads = [1, 1, 1, 1]>(ad, wd)
    cq = QuantizeLinear(c, y_scale, y_zero)
    cd = DequantizeLinear(cq, y_scale, y_zero)
    r = Add(ad, cd)"""
    + OUTPUT_QDQ
)


@exact_sums.requires_native_exact_sums
def test_what_onnx_runtime_computes_in_float_is_an_integer_operator_only_on_demand():
    """Oracle: ONNX Runtime, which computes nothing in integers around an int8 tensor with two readers."""
    shape = (1, 8, 32, 32)
    graph = foreign_graph(
        RESIDUAL, shape, w=random_integers(8, 8, 3, 3), x_zero=np.int8(-5), y_zero=np.int8(3)
    )
    linear, whole = (convert_graph(graph, "qoperator", integers=wanted) for wanted in (False, True))
    assert [fate.op for fate in list_unconverted(linear)] == ["Conv", "Conv", "Add"]
    assert all("in float between quantizers" in fate.why for fate in list_unconverted(linear))
    assert list_unconverted(whole) == ()
    back = convert_graph(whole, "qdq")
    assert [fate.op for fate in list_float_statuses(back)] == ["Conv", "Conv", "Add"]
    sessions = [Session(g, threads=1) for g in (graph, linear, back, whole)]
    for sample in random_samples(shape):
        theirs = [session.run(sample.feed)[0] for session in sessions]
        assert np.array_equal(theirs[0], theirs[1])
        assert np.array_equal(theirs[0], theirs[2])
        assert not np.array_equal(theirs[0], theirs[3])
        ours = [Executor(g).run(sample.feed)["y"] for g in (graph, linear, back, whole)]
        assert all(np.array_equal(theirs[3], integers) for integers in ours)


def test_a_constant_that_is_added_goes_to_uint8_with_its_neighbours():
    graph = foreign_graph(
        INPUT_QDQ + WD + "r = Add(xd, wd)" + OUTPUT_QDQ,
        w=random_integers(3, 1, 1),
        w_zero=np.int8(-9),
    )
    linear = convert_graph(graph, "qoperator", integers=True)
    assert "com.microsoft::QLinearAdd" in map(get_operator, linear.nodes)
    feed = random_samples(CONV)[0].feed
    real = Session(graph, threads=1, optimize="none").run(feed)[0]
    steps = (Session(linear, threads=1).run(feed)[0] - real) / np.float32(0.11)
    assert np.abs(steps).max() < 1.01  # a sum may tie otherwise


def test_what_has_no_kernel_keeps_its_quantizers_and_says_why():
    shown = foreign_graph(
        INPUT_QDQ + WD + "r = Conv(xd, wd)\ny = QuantizeLinear(r, y_scale, y_zero)",
        outputs={"y": TensorProto.INT8},
        w=random_integers(8, 3, 3, 3),
        y_zero=np.int8(-20),
    )
    tanh = foreign_graph(INPUT_QDQ + "r = Tanh(xd)" + OUTPUT_QDQ)
    resize = 'r = Resize<mode = "linear">(xd, , factors)'
    factors = np.array([1, 1, 2, 2], np.float32)
    linear_resize = foreign_graph(INPUT_QDQ + resize + OUTPUT_QDQ, factors=factors)
    for graph, op, why in (
        (shown, "Conv", f"{IN_FLOAT}: no QLinear operator supports these types or scales"),
        (tanh, "Tanh", "ONNX Runtime has no QLinear operator for Tanh"),
        (linear_resize, "Resize", "ONNX Runtime has no QLinear operator for Resize linear"),
    ):
        linear = convert_graph(graph, "qoperator")
        assert [(fate.op, fate.why) for fate in list_unconverted(linear)] == [(op, why)]
        feed = random_samples(CONV)[0].feed
        expected = Session(graph, threads=1).run(feed)[0]
        assert np.array_equal(Session(linear, threads=1).run(feed)[0], expected)


def test_a_pool_with_its_channels_last_is_refused_by_name():
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\n"
        "yq = com.microsoft.QLinearGlobalAveragePool<channels_last = 1>"
        "(xq, x_scale, x_zero, y_scale, y_zero)\ny = DequantizeLinear(yq, y_scale, y_zero)"
    )
    with pytest.raises(UnsupportedError, match=r"QLinearGlobalAveragePool .* channels last"):
        convert_graph(graph, "qdq")


def test_softmax_over_several_axes_is_refused_where_the_opset_has_no_such():
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\n"
        "yq = com.microsoft.QLinearSoftmax<axis = 1, opset = 11>"
        "(xq, x_scale, x_zero, y_scale, y_zero)\ny = DequantizeLinear(yq, y_scale, y_zero)",
        **HALF,
    )
    with pytest.raises(UnsupportedError, match="before opset 13"):
        convert_graph(graph, "qdq")


def test_scales_a_channel_before_opset_13_stand_in_microsoft_s_quantizer():
    """Oracle: ONNX Runtime, which runs both forms; ONNX's own quantizer has no axis in opset 12."""
    graph, shape, _ = _layer("Conv a channel")
    proto = convert_graph(graph, "qoperator").to_proto()
    proto.opset_import[0].version = 12
    old = Graph.from_proto(proto)
    converted = convert_graph(old, "qdq")
    along_axis = [get_operator(node) for node in converted.nodes if "axis" in get_attributes(node)]
    assert {*along_axis} == {"com.microsoft::DequantizeLinear"}
    _same_everywhere([old, converted, convert_graph(converted, "qoperator")], shape)


def test_what_is_float_behind_scales_a_channel_before_opset_13_is_no_difference():
    """Oracle: ONNX Runtime; reading the QDQ form alone raises the opset, and Softmax has another axis there."""
    graph = foreign_graph(
        "xq = QuantizeLinear(x, x_scale, x_zero)\n"
        "yq = QLinearConv(xq, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero)\n"
        "yd = DequantizeLinear(yq, y_scale, y_zero)\ny = Softmax<axis = 3>(yd)",
        CONV,
        opset=12,
        w=random_integers(8, 3, 3, 3),
        **PER_CHANNEL,
    )
    _same_everywhere([graph, convert_graph(graph, "qdq")], CONV)


def test_an_unknown_form_is_a_usage_error():
    with pytest.raises(UsageError, match="choose one of qdq, qoperator"):
        convert_graph(_layer("Mul")[0], "tflite")


def test_int8_goes_to_uint8_where_onnx_runtime_rounds_otherwise_for_it():
    """Oracle: ONNX Runtime, whose averages here come near ties."""
    shape = (4, 3, 32, 32)
    graph = foreign_graph(
        INPUT_QDQ + "r = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(xd)" + OUTPUT_QDQ,
        shape,
        x_scale=np.float32(0.026660321),
        y_scale=np.float32(0.02666032),
        x_zero=np.int8(-7),
        y_zero=np.int8(3),
    )
    linear = convert_graph(graph, "qoperator")
    assert "com.microsoft::QLinearAveragePool" in map(get_operator, linear.nodes)
    one, other = Session(graph, threads=1), Session(linear, threads=1)
    for sample in random_samples(shape, 8):
        assert np.array_equal(one.run(sample.feed)[0], other.run(sample.feed)[0])


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_dilations_of_1_leave_no_model_that_onnx_runtime_refuses(form: QuantizedForm) -> None:
    attributes = "kernel_shape = [3, 3], dilations = [1, 1]"
    graph = foreign_graph(INPUT_QDQ + f"r = AveragePool<{attributes}>(xd)" + OUTPUT_QDQ, opset=19)
    feed = {"x": gaussian_array(1, 3, 8, 8)}
    theirs = Session(graph, threads=1, optimize="none").run(feed, ["y"])[0]
    ours = Session(convert_graph(graph, form), threads=1).run(feed, ["y"])[0]
    assert np.abs(ours - theirs).max() <= 0.111  # one step, where an average is a tie
