"""The QDQ form: ONNX Runtime's optimized graph is the oracle of what runs in integers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import pytest
from cases import CASES, quantized_case
from networks import (
    build_network,
    gaussian_array,
    optimized_kernels,
    quantize_network,
    worst_sqnr_db,
)
from parts import CONV, SAME, WB, V, W

from ptq.core.targets import TARGETS
from ptq.core.types import INT8
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.emit.to_qdq import to_qdq

LINEAR = {"Conv": "QLinearConv", "Gemm": "QGemm", "MatMul": "QLinearMatMul", "Add": "QLinearAdd"}
FREE = {"Transpose", "Reshape", "Flatten", "QuantizeLinear", "DequantizeLinear", "NhwcMaxPool"}


def float_kernels(kernels: Counter[str]) -> Counter[str]:
    """What computes in float."""
    return Counter({k: n for k, n in kernels.items() if k not in FREE and "QLinear" not in k})


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_the_model_stays_valid_and_keeps_its_inputs_and_outputs(name: str, target: str) -> None:
    done = quantized_case(name, target)
    proto = done.qdq.to_proto()
    onnx.checker.check_model(proto, full_check=True)
    for ours, theirs in (
        (proto.graph.input, done.model.graph.input),
        (proto.graph.output, done.model.graph.output),
    ):
        assert [v.name for v in ours] == [v.name for v in theirs]
        for one, other in zip(ours, theirs, strict=True):
            mine, given = one.type.tensor_type, other.type.tensor_type
            assert mine.elem_type == given.elem_type
            assert len(mine.shape.dim) == len(given.shape.dim)
            for a, b in zip(mine.shape.dim, given.shape.dim, strict=True):
                assert a.dim_value == b.dim_value


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_the_quantized_model_computes_what_the_float_model_did(name: str, target: str) -> None:
    assert worst_sqnr_db(quantized_case(name, target)) > 25


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "relu6",
        "clip -1 1",
        "clip max only",
        "clip min only",
        "relu output and inner",
        "add relu",
        "residual",
    ],
)
def test_a_folded_activation_leaves_no_kernel(name: str) -> None:
    done = quantized_case(name)
    assert done.plan.folded
    assert not done.plan.clamps
    assert float_kernels(optimized_kernels(done.qdq)) == Counter()


@pytest.mark.parametrize("name", ["relu with a second reader", "relu of an output"])
def test_a_needed_pre_activation_keeps_its_own_integers(name: str) -> None:
    done = quantized_case(name)
    assert not done.plan.folded
    assert "c" in done.plan.tensors
    assert done.plan.tensors["c"].zero_point > 0
    assert optimized_kernels(done.qdq)["QLinearConv"] == 1


def test_a_relu6_that_sees_less_than_six_folds_into_the_narrower_range() -> None:
    model = build_network(
        CONV + "y = Clip(c, lo, hi)", lo=np.float32(0), hi=np.float32(6), w=W * 0.1, b=WB["b"]
    )
    done = quantize_network(model)
    params = done.plan.tensors["y"]
    assert float(params.scale) * 255 < 2
    assert done.plan.folded == {"Clip_y": "Conv_c"}
    assert optimized_kernels(done.qdq)["QLinearConv"] == 1


def test_a_clip_that_leaves_zero_out_is_clamped_on_integers_behind_an_integer_convolution() -> None:
    done = quantized_case("clip 1 5")
    (clamp,) = done.plan.clamps.values()
    params = done.plan.tensors["y"]
    assert (clamp.lo, clamp.hi) == tuple(int(params.quantize(bound)) for bound in (1, 5))
    assert optimized_kernels(done.qdq)["QLinearConv"] == 1
    for feed in done.feeds:
        (y,) = Session(done.qdq).run(feed)
        assert y.min() >= 1 - float(params.scale) / 2


def test_a_symmetric_target_clamps_a_relu_explicitly_and_keeps_the_convolution_integer() -> None:
    # [-127, 127] with real 0 in the middle: the lowest integer is no longer what Relu cuts at
    done = quantized_case("relu")
    plan = done.plan
    middle = replace(plan.tensors["y"], zero_point=np.int64(128))
    clamped = replace(
        plan,
        tensors={**plan.tensors, "y": middle, "c": middle},
        folded={},
        why={**plan.why, "c": plan.why["y"]},
    )
    qdq = to_qdq(done.prepared, clamped)
    kernels = optimized_kernels(qdq)
    assert kernels["QLinearConv"] == 1
    assert kernels["Relu"] == 1
    before = Session(Graph.from_proto(done.model)).run(done.feeds[0])[0]
    after = Session(qdq).run(done.feeds[0])[0]
    assert after.min() == 0
    assert np.abs(before - after).max() > 0


def test_the_solver_does_not_fold_where_the_zero_point_is_not_at_the_lowest_integer() -> None:
    narrow = replace(TARGETS["ort"], name="narrow", activation=INT8)
    model = build_network(
        "c = Conv(x, w)\ny = Clip(c, lo, hi)", w=W, lo=np.float32(0.5), hi=np.float32(9)
    )
    done = quantize_network(model, target=narrow)
    assert not done.plan.folded
    assert list(done.plan.clamps) == ["Clip_y"]


def test_an_activation_that_is_a_graph_output_is_fed_by_the_dequantizer_under_its_name() -> None:
    done = quantized_case("relu output and inner")
    (output,) = [v for v in done.qdq.outputs if v.name == "r"]
    producer = output.producer()
    assert producer is not None
    assert producer.op_type == "DequantizeLinear"
    assert optimized_kernels(done.qdq)["QLinearConv"] == 2


@pytest.mark.parametrize(
    ("op", "model"),
    [
        (
            "Conv",
            build_network(CONV + f"d = Conv{SAME}(c, v)\ny = Conv{SAME}(d, u)", v=V, u=V, **WB),
        ),
        (
            "Gemm",
            build_network(
                "c = Gemm(x, m, k)\nd = Gemm(c, n, k)\ny = Gemm(d, n)",
                {"x": (2, 16)},
                m=gaussian_array(16, 8),
                n=gaussian_array(8, 8),
                k=gaussian_array(8),
            ),
        ),
        (
            "MatMul",
            build_network(
                "c = MatMul(x, m)\nd = MatMul(c, n)\ny = MatMul(d, n)",
                {"x": (2, 5, 16)},
                m=gaussian_array(16, 8),
                n=gaussian_array(8, 8),
            ),
        ),
    ],
)
@pytest.mark.parametrize("level", ["basic", "all"])
def test_a_node_left_float_between_integer_ones_stays_float(
    op: str, model: onnx.ModelProto, level: str
) -> None:
    done = quantize_network(model, skip=[f"{op}_d"])
    kernels = optimized_kernels(done.qdq, level)
    if level == "all":
        assert kernels[LINEAR[op]] + kernels["MatMulIntegerToFloat"] == 2
        assert kernels[op] + kernels[f"Fused{op}"] == 1
    # its weights are the float ones: ONNX Runtime's result is as with no optimizations at all
    plain = Session(done.qdq, optimize="none").run(done.feeds[0])[0]
    optimized = Session(done.qdq, optimize=level).run(done.feeds[0])[0]
    scale = float(np.ptp(plain)) / 255
    assert np.abs(plain - optimized).max() <= 1.01 * scale
    assert np.mean(np.abs(plain - optimized) > scale / 100) < 0.05


@pytest.mark.parametrize("skip", ["Conv", "ConvTranspose"])
def test_skipping_an_operator_leaves_all_of_it_float(skip: str) -> None:
    model = build_network(
        f"a = Relu(x)\nc = {skip}{SAME}(a, w)\ns = Add(c, c)\nd = {skip}{SAME}(s, w)\ny = Add(d, s)",
        {"x": (1, 8, 8, 8)},
        w=V,
    )
    done = quantize_network(model, skip=[skip])
    kernels = optimized_kernels(done.qdq)
    assert kernels["QLinearConv"] == 0
    assert kernels["QLinearAdd"] == 2
    assert kernels["Conv"] + kernels["FusedConv"] + kernels["ConvTranspose"] == 2
    assert worst_sqnr_db(done) > 30


def test_a_float_output_with_float_readers_keeps_its_real_values() -> None:
    model = build_network(
        CONV + f"d = Conv{SAME}(c, v)\na = Add(d, c)\ny = Conv{SAME}(a, v)\nz = Neg(d)",
        None,
        ["y", "d", "z"],
        v=V,
        **WB,
    )
    done = quantize_network(model, skip=["Conv_d"])
    y, d, z = Session(done.qdq).run(done.feeds[0])
    assert np.array_equal(z, -d)
    assert np.unique(d).size > 256
    assert np.unique(y).size <= 256
    assert optimized_kernels(done.qdq)["Conv"] == 1


def test_a_sub_graph_reads_real_values_of_what_a_float_node_computes() -> None:
    done = quantized_case("if capturing a float")
    captured = next(n for n in done.qdq.nodes if n.op_type == "Neg").outputs[0]
    inside = [use.node.op_type for use in captured.uses()]
    assert sorted(inside) == ["Abs", "QuantizeLinear", "Relu"]


def test_an_edited_scale_is_applied() -> None:
    done = quantized_case("relu")
    doubled = replace(done.plan.tensors["y"], scale=2 * done.plan.tensors["y"].scale)
    plan = replace(done.plan, tensors={**done.plan.tensors, "y": doubled})
    qdq = to_qdq(done.prepared, plan)
    y = Session(qdq).run(done.feeds[0])[0]
    steps = np.rint(y / doubled.scale)
    assert np.array_equal(y, steps.astype(np.float32) * doubled.scale)
    assert set(np.unique(steps % 2)) == {0, 1}


def test_the_prepared_graph_is_left_alone() -> None:
    done = quantized_case("residual")
    assert done.prepared.digest() == done.plan.graph


def test_the_same_plan_gives_the_same_bytes() -> None:
    done = quantized_case("residual")
    assert to_qdq(done.prepared, done.plan).to_bytes() == done.qdq.to_bytes()


def test_a_graph_without_nodes_passes_through() -> None:
    graph = onnx.helper.make_graph(
        [],
        "empty",
        [onnx.helper.make_tensor_value_info("x", 1, (2,))],
        [onnx.helper.make_tensor_value_info("x", 1, (2,))],
    )
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    done = quantize_network(model)
    assert not done.plan.tensors
    assert [v.name for v in done.qdq.outputs] == ["x"]
