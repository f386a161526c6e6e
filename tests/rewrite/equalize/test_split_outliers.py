"""Oracle: the float model in ONNX Runtime, before and after."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ptq.core.types import UINT8
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_operator
from ptq.model.session.session import Session
from ptq.rewrite.equalize.split_outliers import split_channels, split_sites
from ptq.rewrite.instrument.adjustable_outliers import make_outlier_factors_inputs

CHANNELS, FEW = 8, np.array([1, 6])
MASK = np.isin(np.arange(CHANNELS), FEW, invert=True).astype(np.float32)
UNLIKE = MASK * np.linspace(0.3, 5, CHANNELS, dtype=np.float32)


def two_products(*, rank: int = 2, transposed: bool = False) -> Graph:
    """Relu, then two products of it, the second a graph output that another node reads too."""
    rng = np.random.default_rng(3)
    shape = ["n", CHANNELS] if rank == 2 else ["n", 5, CHANNELS]
    op = "Gemm" if rank == 2 else "MatMul"
    attrs = {"transB": 1} if transposed else {}
    weights = {
        "w1": rng.normal(size=(CHANNELS, 4)),
        "w2": rng.normal(size=(CHANNELS, 4)),
        "b": rng.normal(size=4),
    }
    if transposed:
        weights |= {name: weights[name].T for name in ("w1", "w2")}
    bias = ["b"] if op == "Gemm" else []
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node(op, ["r", "w1", *bias], ["p"], name="first", **attrs),
        helper.make_node(op, ["r", "w2"], ["y"], name="second", **attrs),
        helper.make_node("Add", ["p", "y"], ["s"], name="sum"),
        helper.make_node("Sigmoid", ["r"], ["t"], name="other reader"),
    ]
    ends = [*shape[:-1], 4]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ends),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, ends),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, shape),
        ],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return Graph.from_proto(model).with_shapes()


@pytest.mark.parametrize("factors", [MASK, UNLIKE], ids=["as they are", "multiplied"])
@pytest.mark.parametrize(
    ("rank", "transposed"), [(2, False), (2, True), (3, False)], ids=["Gemm", "transB", "MatMul"]
)
def test_a_model_with_channels_split_off_computes_the_same(rank, transposed, factors):
    graph = two_products(rank=rank, transposed=transposed)
    found = split_sites(graph, {"first", "second", "sum"})
    assert [(site.tensor, site.channel_counts()) for site in found] == [("r", (CHANNELS, 8))]
    changed, added = split_channels(graph, found, {"r": factors})
    onnx.checker.check_model(changed.to_proto(), full_check=True)
    assert [get_name(v) for v in changed.outputs] == ["y", "s", "t"]
    assert len(added) == (4 if rank == 2 else 6)
    assert set(added) <= {node.name for node in changed.nodes}
    x = np.random.default_rng(4).normal(size=(3, CHANNELS) if rank == 2 else (3, 5, CHANNELS))
    feed = {"x": x.astype(np.float32)}
    for before, after in zip(Session(graph).run(feed), Session(changed).run(feed), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_what_products_read_is_multiplied_and_all_else_as_it_was():
    graph = two_products()
    changed, _ = split_channels(graph, split_sites(graph, {"first", "second"}), {"r": UNLIKE})
    changed.add_outputs(["r_rest", "r", "p"])
    feed = {"x": np.full((2, CHANNELS), 3, np.float32)}
    names = [get_name(v) for v in changed.outputs]
    seen = dict(zip(names, Session(changed).run(feed), strict=True))
    assert (seen["r"] == 3).all()
    np.testing.assert_array_equal(seen["r_rest"][0], 3 * UNLIKE)
    readers = {node.name: node for node in changed.nodes}
    assert get_name(readers["first"].inputs[0]) == "r_rest"
    assert get_name(readers["other reader"].inputs[0]) == "r"


def test_channels_of_an_input_of_the_model_are_split_off_too():
    rng = np.random.default_rng(0)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    proto = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, CHANNELS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(rng.normal(size=(CHANNELS, 3)).astype(np.float32), "w")],
    )
    graph = Graph.from_proto(helper.make_model(proto, ir_version=8))
    changed, _ = split_channels(graph, split_sites(graph, {"product"}), {"x": UNLIKE})
    feed = {"x": rng.normal(size=(2, CHANNELS)).astype(np.float32)}
    np.testing.assert_allclose(
        Session(changed).run(feed)[0], Session(graph).run(feed)[0], atol=1e-5
    )


def test_products_of_the_second_operand_or_of_two_activations_are_no_sites():
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["w", "x"], ["a"], name="from the left"),
        helper.make_node("MatMul", ["a", "x"], ["y"], name="of two"),
    ]
    proto = helper.make_graph(
        nodes,
        "none",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])],
        [numpy_helper.from_array(rng.normal(size=(4, 4)).astype(np.float32), "w")],
    )
    graph = Graph.from_proto(helper.make_model(proto, ir_version=8))
    assert not split_sites(graph, {"from the left", "of two"})


def test_the_trial_rounds_what_the_factors_leave():
    graph = two_products()
    made = make_outlier_factors_inputs(graph, split_sites(graph, {"first", "second"}), UINT8)
    by, back, scale, zero_point = made.inputs["r"]
    factors = MASK * np.array([1, 1, 2, 0.5, 1, 4, 1, 1], np.float32)
    inverse = np.divide(1, factors, out=np.zeros_like(factors), where=factors != 0)
    x = np.array([[0.2, 77.3, 0.7, 1.4, 0.2, 2.3, 0.9, 0.6]], np.float32)
    levels = {scale: np.array(1, np.float32), zero_point: np.array(0, np.uint8)}
    feed = {"x": x, by: factors, back: inverse, **levels}
    got = Session(made.graph, optimize="none").run(feed)
    rounded = np.where(factors == 0, x, np.rint(x * factors) * inverse)
    [product] = [n for n in graph.nodes if n.name == "second" and get_operator(n) == "Gemm"]
    weight = product.inputs[1].const_value.numpy()
    np.testing.assert_allclose(got[0], rounded @ weight, atol=1e-5)
