"""`.tflite` files with activations of 16 bits and weights of 8 (A16W8), in LiteRT's interpreter.

The oracle is LiteRT itself: its reference kernels equal the arithmetic ``litert``, its default ones
``litert-xnnpack``, bit for bit, for every operator that has a kernel of 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from litert_cases import CASES, feeds_of, graph_of
from networks import build_network, gaussian_array, quantize_network, sqnr_db
from qdq_builder import QdqBuilder

import ptq
from ptq.core.errors import UnsupportedError
from ptq.core.targets import WIDE_LITERT_OPS
from ptq.executor.arithmetics import get_arithmetic
from ptq.executor.executor import Executor
from ptq.executor.program import Step
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.tflite.write import TfliteOptions

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from ptq.model.tflite.interpreter import Kernels, LitertModel, parse_model
from ptq.model.tflite.read import read_tflite

ARITHMETICS: tuple[tuple[Kernels, str], ...] = (
    ("reference", "litert"),
    ("xnnpack", "litert-xnnpack"),
)
QUANTIZERS = {"QuantizeLinear", "DequantizeLinear", "Requantize"}
ALLOWED = QUANTIZERS | WIDE_LITERT_OPS | {"Resize"}
WIDE_CASES = [case for case in CASES if {n.op_type for n in graph_of(case).nodes} <= ALLOWED]
SAME = "<pads = [1, 1, 1, 1]>"
NODES = (
    f"c = Conv{SAME}(x, u, b)\nr = Relu(c)\nd = Conv{SAME}(r, v)\ns = Add(d, r)\nt = HardSwish(s)\n"
    "g = GlobalAveragePool(t)\nf = Flatten(g)\nh = Gemm(f, w)\ny = Softmax(h)"
)
WEIGHTS = {
    "u": gaussian_array(8, 3, 3, 3, scale=0.2),
    "v": gaussian_array(8, 8, 3, 3, seed=1, scale=0.1),
    "b": gaussian_array(8, seed=2),
    "w": gaussian_array(8, 4, seed=3),
}


def test_the_cases_are_those_of_every_operator_with_16_bits() -> None:
    covered = {node.op_type for case in WIDE_CASES for node in graph_of(case).nodes}
    assert WIDE_LITERT_OPS - {"Resize linear", "Resize nearest", "Identity"} <= covered
    kernels = get_arithmetic("litert").wide_kernels.keys()
    assert kernels - QUANTIZERS == WIDE_LITERT_OPS


@pytest.mark.parametrize("case", WIDE_CASES)
def test_an_operator_of_16_bits_computes_the_executors_integers(case: str) -> None:
    graph = graph_of(case, wide=True)
    content = encode_tflite(graph).content
    feed = feeds_of(graph, 2)
    for kernels, arithmetic in ARITHMETICS:
        executor = Executor(graph, arithmetic)
        assert all(isinstance(step, Step) for step in executor.program.steps)
        ours, theirs = executor.run(feed), LitertModel(content, kernels=kernels).run(feed)
        for name, array in ours.items():
            np.testing.assert_array_equal(theirs[name], array)
            assert np.unique(array).size > 1, "the case tells nothing"


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "Exp", "Gelu", "Abs", "LeakyRelu"])
@pytest.mark.parametrize("scale", [0.0001, 2**-12, 0.0017])
def test_a_function_equals_litert_on_all_65536_integers(op: str, scale: float) -> None:
    b = QdqBuilder(wide=True)
    to = {"Sigmoid": 1 / 256, "Tanh": 1 / 128}.get(op, 0.1)
    b.output(b.requantize(b.node(op, b.input(["N", 2**16], scale * 128)), to))
    graph = b.to_graph()
    x = (np.arange(-(2**15), 2**15) * scale).astype(np.float32)[None]
    content = encode_tflite(graph).content
    [ours] = Executor(graph, "litert").run({"input0": x}).values()
    [theirs] = LitertModel(content, kernels="reference").run({"input0": x}).values()
    np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize(
    ("form", "scale"), [("none", 9.2589900305029e-05), ("tanh", 0.00013337771815713495)]
)
def test_the_table_of_gelu_has_the_last_bits_of_the_c_library(form: str, scale: float) -> None:
    b = QdqBuilder(wide=True)
    gelu = b.node("Gelu", b.input(["N", 2**16], scale * 128), approximate=form)
    b.output(b.requantize(gelu, scale * 128))
    graph = b.to_graph()
    x = (np.arange(-(2**15), 2**15) * scale).astype(np.float32)[None]
    [ours] = Executor(graph, "litert").run({"input0": x}).values()
    model = LitertModel(encode_tflite(graph).content, kernels="reference")
    [theirs] = model.run({"input0": x}).values()
    np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize(
    "scales", [(1.0, 1.0, 1.0), (0.5, 1.0, 1.0), (2.0, 0.5, 4.0), (1.0, 1.0, 0.25)]
)
def test_sums_of_scales_of_powers_of_two_are_no_special_case(
    op: str, scales: tuple[float, float, float]
) -> None:
    b = QdqBuilder(wide=True)
    x, z, y = (128 * scale for scale in scales)
    b.output(b.requantize(b.node(op, b.input(["N", 5, 7], x), b.input(["N", 1, 7], z)), y))
    graph = b.to_graph()
    feed = {
        name: np.float32(1000) * gaussian_array(2, *shape, seed=k)
        for k, (name, shape) in enumerate([("input0", (5, 7)), ("input1", (1, 7))])
    }
    content = encode_tflite(graph).content
    for kernels, arithmetic in ARITHMETICS:
        [ours] = Executor(graph, arithmetic).run(feed).values()
        [theirs] = LitertModel(content, kernels=kernels).run(feed).values()
        np.testing.assert_array_equal(theirs, ours)
        assert np.unique(ours).size > 1


def test_sums_that_leave_32_bits_are_those_of_litert() -> None:
    b = QdqBuilder(wide=True)
    w = b.weight(2, 4096)
    x = b.input(["N", 4096], 1 / 256 * 128)
    b.output(b.requantize(b.node("Gemm", x, w, b.bias(128 / 256, w, 2), transB=1), 50.0 * 128))
    graph = b.to_graph()
    feed = {"input0": np.full((1, 4096), 127.9, np.float32) * np.sign(gaussian_array(4096))}
    [ours] = Executor(graph, "litert").run(feed).values()
    content = encode_tflite(graph).content
    [theirs] = LitertModel(content, kernels="reference").run(feed).values()
    np.testing.assert_array_equal(theirs, ours)


def sqnr_in_litert(done: Any) -> float:
    """The worst sample's signal over error in LiteRT: ONNX Runtime 1.32 rounds inputs of products to 8 bits."""
    float_model, file = (
        Session(Graph.from_proto(done.model), threads=1),
        encode_tflite(done.qdq).content,
    )
    model, found = LitertModel(file, kernels="reference"), []
    for feed in done.feeds:
        [before], [after] = float_model.run(feed), model.run(feed).values()
        found.append(sqnr_db(before, after))
    return min(found)


@pytest.fixture(scope="module")
def done() -> Any:
    return quantize_network(build_network(NODES, **WEIGHTS), target="litert-a16")


def test_the_plan_has_16_bits_around_zero_and_what_litert_lacks_is_float(done: Any) -> None:
    assert {p.qtype.name for p in done.plan.tensors.values()} == {"int16"}
    assert {int(p.zero_point) for p in done.plan.tensors.values()} == {0}
    assert {p.qtype.name for p in done.plan.operands.values()} == {"int8", "int32"}
    assert float(done.plan.tensors["y"].scale) == 2**-15
    [(_, why)] = done.plan.floats.items()
    assert "HardSwish" in why


def test_a_network_of_16_bits_equals_litert_and_is_more_accurate_than_8_bits(done: Any) -> None:
    file = encode_tflite(done.qdq)
    for kernels, arithmetic in ARITHMETICS:
        model = LitertModel(file.content, kernels=kernels)
        for feed in done.feeds:
            [ours], [theirs] = (
                Executor(done.qdq, arithmetic).run(feed).values(),
                model.run(feed).values(),
            )
            assert np.abs(theirs - ours).max() <= 2**-15  # HardSwish is float: one step
    narrow = quantize_network(build_network(NODES, **WEIGHTS), target="litert")
    assert sqnr_in_litert(done) > sqnr_in_litert(narrow) + 3


def test_biases_have_64_bits_and_the_file_is_read_again(done: Any) -> None:
    content = encode_tflite(done.qdq).content
    [graph] = parse_model(content).subgraphs
    kinds = {tensor.name.decode(): tensor.type for tensor in graph.tensors}
    from ptq.model.tflite.schema import load_schema

    types = load_schema().TensorType
    assert types.INT64 in kinds.values()
    assert types.INT32 not in {kind for name, kind in kinds.items() if "bias" in name}
    again = Graph.from_proto(read_tflite(content))
    [name] = [v.name for v in again.outputs]
    for feed in done.feeds[:2]:
        [theirs] = LitertModel(content, kernels="reference").run(feed).values()
        assert np.abs(Executor(again, "litert").run(feed)[name] - theirs).max() <= 2**-15


def test_inputs_and_outputs_of_int8_are_int16_in_such_a_file(done: Any) -> None:
    content = encode_tflite(done.qdq, TfliteOptions(io="int8")).content
    model = LitertModel(content, kernels="reference")
    assert {d["dtype"] for d in model._input_details.values()} == {np.int16}
    assert {d["dtype"] for d in model._output_details.values()} == {np.int16}


def test_a_clamp_that_changes_the_scale_of_16_bits_is_refused_by_name() -> None:
    b = QdqBuilder(wide=True)
    bounds = [b.constant(np.float32(v)) for v in (-0.5, 3.0)]
    b.output(b.requantize(b.node("Clip", b.input(["N", 4]), *bounds), 0.02))
    with pytest.raises(
        UnsupportedError, match=r"Clip clip_.* changes the scale of 16-bit integers"
    ):
        encode_tflite(b.to_graph())


def test_the_report_says_that_both_kernels_equal_the_executor() -> None:
    nodes = NODES.replace("t = HardSwish(s)\n", "").replace("(t)", "(s)")
    data = {"x": gaussian_array(16, 3, 8, 8, seed=5)}
    result = ptq.quantize(
        build_network(nodes, **WEIGHTS), data, eval_data=data, target="litert-a16", form="tflite",
        effort="fast", threads=1, force=True,
    )  # fmt: skip
    check = result.report.litert
    assert check is not None
    assert [(k.differing, k.not_run) for k in check.kernels] == [(0, ""), (0, "")]
    assert all(k.elements for k in check.kernels)


def test_qoperator_form_is_refused() -> None:
    with pytest.raises(ptq.UsageError, match="litert-a16"):
        ptq.quantize(
            build_network(NODES, **WEIGHTS), {"x": gaussian_array(4, 3, 8, 8)}, target="litert-a16",
            form="qoperator",
        )  # fmt: skip
