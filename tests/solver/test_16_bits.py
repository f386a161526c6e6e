"""Activations of 16 bits: their parameters, their quantizers, and what runtimes compute of them."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array, quantize_network, worst_sqnr_db

import ptq
from ptq.executor.executor import Executor
from ptq.executor.runtimes.registry import RUNTIMES, open_in_runtime
from ptq.model.node import get_dtype
from ptq.model.session.session import Session

SAME = "<pads = [1, 1, 1, 1]>"
NODES = (
    f"c = Conv{SAME}(x, u, b)\nr = Relu(c)\nd = Conv{SAME}(r, v)\ns = Add(d, r)\n"
    "g = GlobalAveragePool(s)\nf = Flatten(g)\nh = Gemm(f, w)\ny = Softmax(h)"
)
WEIGHTS = {
    "u": gaussian_array(8, 3, 3, 3, scale=0.2),
    "v": gaussian_array(8, 8, 3, 3, seed=1, scale=0.1),
    "b": gaussian_array(8, seed=2),
    "w": gaussian_array(8, 4, seed=3),
}
MODEL = build_network(NODES, **WEIGHTS)
DATA = {"x": gaussian_array(16, 3, 8, 8, seed=5)}
NEEDS_QNN = pytest.mark.skipif(
    not RUNTIMES["qnn"].is_installed(), reason=f"needs: {RUNTIMES['qnn'].install}"
)


def test_activations_have_16_bits_weights_8_and_biases_32() -> None:
    plan = quantize_network(MODEL, target="qnn-a16").plan
    assert {params.qtype.name for params in plan.tensors.values()} == {"uint16"}
    assert {params.qtype.name for params in plan.operands.values()} == {"int8", "int32"}


@pytest.mark.parametrize(("opset", "domain"), [(17, "com.microsoft"), (21, "")])
def test_quantizers_of_16_bits_are_those_that_the_opset_has(opset: int, domain: str) -> None:
    done = quantize_network(build_network(NODES, opset=opset, **WEIGHTS), target="qnn-a16")
    for node in done.qdq.nodes:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        integers = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
        wide = integers is not None and get_dtype(integers) == np.uint16
        assert node.domain == (domain if wide else "")
    Session(done.qdq, threads=1).run(done.feeds[0])


def test_16_bits_are_more_accurate_than_8() -> None:
    wide, narrow = (worst_sqnr_db(quantize_network(MODEL, target=t)) for t in ("qnn-a16", "qnn"))
    assert wide > narrow + 3


@pytest.mark.parametrize(
    ("op", "scale", "zero_point"),
    [("Softmax", 2**-16, 0), ("Sigmoid", 2**-16, 0), ("Tanh", 2**-15, 2**15)],
)
def test_functions_with_a_known_range_have_it_in_16_bits(
    op: str, scale: float, zero_point: int
) -> None:
    model = build_network(f"c = Conv(x, u)\ny = {op}(c)", u=WEIGHTS["u"])
    params = quantize_network(model, target="qnn-a16").plan.tensors["y"]
    assert (float(params.scale), int(params.zero_point)) == (scale, zero_point)


@pytest.mark.parametrize("opset", [17, 21])
def test_the_executor_computes_what_onnx_runtime_computes_to_the_bit(opset: int) -> None:
    done = quantize_network(build_network(NODES, opset=opset, **WEIGHTS), target="qnn-a16")
    # ONNX Runtime 1.32 fuses the Gemm into MatMulNBits, which by default rounds its input to 8 bits
    session = Session(done.qdq, threads=1)
    for feed in done.feeds:
        (theirs,) = session.run(feed)
        ours = Executor(done.qdq, "ort").run(feed)["y"]
        assert ours.tobytes() == theirs.tobytes()


def test_only_models_of_16_bits_are_loaded_again_for_their_time() -> None:
    for target, again in (("qnn", False), ("qnn-a16", True)):
        graph = quantize_network(MODEL, target=target).qdq
        opened = Session(graph, threads=1)
        timed = Session.for_timing(graph, threads=1, opened=opened)
        assert (timed is not opened) == again == opened.computes_as_written
        assert not timed.computes_as_written


def test_second_order_rounding_takes_inputs_of_16_bits() -> None:
    options = {"eval_data": DATA, "effort": "fast", "threads": 1, "force": True}
    result = ptq.quantize(MODEL, DATA, target="qnn-a16", **options)  # type: ignore[arg-type]
    assert result.plan.rounding
    sqnr = result.report.evaluation.forms["int8"].outputs["y"].sqnr_db  # type: ignore[union-attr]
    assert sqnr is not None
    assert sqnr > 30


def test_a_plan_with_16_bits_is_read_as_it_was_written() -> None:
    plan = quantize_network(MODEL, target="qnn-a16").plan
    again = ptq.Plan.from_json(plan.to_json())
    assert again.tensors == plan.tensors
    assert again.to_json() == plan.to_json()


@NEEDS_QNN
def test_the_htp_runs_every_node_on_16_bits() -> None:
    done = quantize_network(MODEL, target="qnn-a16")
    model = open_in_runtime("qnn", done.qdq, threads=1)
    (theirs,), (ours,) = model.run(done.feeds[0]), Session(done.qdq, threads=1).run(done.feeds[0])
    assert np.abs(theirs - ours).max() < 0.005
    assert all(node.intended for node in model.placement())
