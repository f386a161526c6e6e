"""Which tensors share a scale; the issue's rules and LiteRT's specification are the oracles."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from cases import quantized_case
from networks import build_network, optimized_kernels, quantize_network
from parts import CONV, SAME, WB, V, W, conv_network

from ptq.core.types import QuantParams


def params(nodes: str, target: str, *names: str, **weights: object) -> list[QuantParams]:
    """Parameters of tensors behind a convolution."""
    done = quantize_network(conv_network(nodes, v=V, **weights), target=target)
    return [done.plan.tensors[name] for name in names]


MOVES = {
    "MaxPool": "y = MaxPool<kernel_shape=[2,2]>(c)",
    "Reshape": "y = Reshape(c, s)",
    "Flatten": "y = Flatten(c)",
    "Transpose": "y = Transpose<perm=[0,2,3,1]>(c)",
    "Squeeze": "y = Squeeze(c, a)",
    "Unsqueeze": "y = Unsqueeze(c, a)",
    "Pad": "y = Pad(c, p)",
    "Gather": "y = Gather<axis=1>(c, a)",
    "Slice": "y = Slice(c, a, e, e)",
}
CONSTANTS = {
    "s": np.array([1, -1], np.int64),
    "a": np.array([0], np.int64),
    "e": np.array([1], np.int64),
    "p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
}


@pytest.mark.parametrize("target", ["ort", "litert"])
@pytest.mark.parametrize("op", MOVES)
def test_what_only_moves_values_keeps_their_scale(op: str, target: str) -> None:
    c, y = params(MOVES[op], target, "c", "y", **CONSTANTS)
    assert c == y


def test_the_reason_names_the_tensor_and_the_node_between() -> None:
    done = quantized_case("max pool")
    assert str(done.plan.why["y"]) == "same: c, through MaxPool_y"


def test_average_pool_shares_its_scale_in_the_specification_alone() -> None:
    nodes = "y = AveragePool<kernel_shape=[2,2]>(c)"
    c, y = params(nodes, "litert", "c", "y")
    assert c == y
    c, y = params(nodes, "ort", "c", "y")
    assert y.scale < c.scale


@pytest.mark.parametrize(
    ("op", "scale", "zero_point"),
    [("Sigmoid", 1 / 256, -128), ("Softmax", 1 / 256, -128), ("Tanh", 1 / 128, 0)],
)
def test_the_specification_prescribes_outputs(op: str, scale: float, zero_point: int) -> None:
    done = quantize_network(conv_network(f"y = {op}(c)"), target="litert")
    y = done.plan.tensors["y"]
    assert (float(y.scale), int(y.zero_point)) == (scale, zero_point)
    assert str(done.plan.why["y"]) == f"fixed: LiteRT's specification for {op}"


def test_a_prescribed_scale_goes_on_through_movers() -> None:
    s, y = params("s = Sigmoid(c)\ny = MaxPool<kernel_shape=[2,2]>(s)", "litert", "s", "y")
    assert s == y
    assert float(y.scale) == 1 / 256


def small_branch(readers: str) -> onnx.ModelProto:
    """A concatenation of a tensor and one eight times smaller."""
    return build_network(
        CONV + f"d = Conv{SAME}(x, u)\n{readers}",
        None,
        ["y", *(["z"] if "z =" in readers else [])],
        u=W / 8,
        **WB,
    )


def test_onnx_runtime_shares_with_inputs_that_nobody_else_reads() -> None:
    done = quantize_network(small_branch("y = Concat<axis=1>(c, d)"))
    assert done.plan.tensors["c"] == done.plan.tensors["d"] == done.plan.tensors["y"]
    assert optimized_kernels(done.qdq)["QLinearConcat"] == 1


def test_a_small_branch_with_another_reader_keeps_its_own_scale_for_onnx_runtime() -> None:
    done = quantize_network(small_branch("y = Concat<axis=1>(c, d)\nz = Sigmoid(d)"))
    assert done.plan.tensors["c"] == done.plan.tensors["y"]
    assert done.plan.tensors["d"].scale < done.plan.tensors["y"].scale / 4
    assert optimized_kernels(done.qdq)["QLinearConcat"] == 1


def test_a_branch_whose_movement_has_another_reader_keeps_its_own_scale() -> None:
    done = quantize_network(
        small_branch("m = MaxPool<kernel_shape=[1,1]>(d)\ny = Concat<axis=1>(c, m)\nz = Sigmoid(d)")
    )
    assert done.plan.tensors["m"] == done.plan.tensors["d"]
    assert done.plan.tensors["d"].scale < done.plan.tensors["y"].scale / 4


def test_a_branch_that_is_a_graph_output_keeps_its_own_scale() -> None:
    model = build_network(
        CONV + f"d = Conv{SAME}(x, u)\ny = Concat<axis=1>(c, d)", None, ["y", "d"], u=W / 8, **WB
    )
    plan = quantize_network(model).plan
    assert plan.tensors["d"].scale < plan.tensors["y"].scale / 4


def test_the_specification_shares_whoever_else_reads() -> None:
    done = quantize_network(
        small_branch("y = Concat<axis=1>(c, d)\nz = Sigmoid(d)"), target="litert"
    )
    assert done.plan.tensors["c"] == done.plan.tensors["d"] == done.plan.tensors["y"]


@pytest.mark.parametrize("name", ["concat with a sigmoid", "minimum with a sigmoid"])
def test_an_input_with_a_prescribed_scale_is_requantized_on_its_way_in_the_specification(
    name: str,
) -> None:
    plan = quantized_case(name, "litert").plan
    ((edge, params),) = plan.edges.items()
    assert not plan.floats
    assert params == plan.tensors["y"] != plan.tensors["s"]
    assert str(plan.why[f"{edge[0]}[{edge[1]}]"]) == f"same: y, through {edge[0]}"
    assert not quantized_case(name).plan.edges


def test_inputs_prescribed_in_two_ways_are_all_requantized() -> None:
    nodes = "s = Sigmoid(c)\nt = Tanh(c)\ny = Concat<axis=1>(s, t)"
    plan = quantize_network(conv_network(nodes), target="litert").plan
    assert list(plan.edges) == [("Concat_y", 0), ("Concat_y", 1)]


def test_a_constant_that_two_nodes_read_does_not_tie_their_scales() -> None:
    nodes = "d = Mul(c, c)\nm = Max(c, k)\nn = Max(d, k)\ny = Sub(m, n)"
    k = np.full((1, 8), -0.2, np.float32)  # a column each: one number alone is a Clip
    plan = quantize_network(conv_network(nodes, k=k), target="litert").plan
    assert plan.tensors["m"] != plan.tensors["n"]
    assert plan.edges["Max_m", 1] == plan.tensors["m"]
    assert plan.edges["Max_n", 1] == plan.tensors["n"]


def test_equally_prescribed_inputs_do_share() -> None:
    done = quantize_network(
        conv_network("s = Sigmoid(c)\nt = Softmax(c)\ny = Concat<axis=1>(s, t)"), target="litert"
    )
    assert float(done.plan.tensors["y"].scale) == 1 / 256
    assert not done.plan.floats


def test_a_bounded_activation_does_not_share_with_what_is_unbounded_and_folds() -> None:
    done = quantized_case("concat of bounded and not")
    assert done.plan.folded == {"Relu_r": "Conv_c"}
    assert done.plan.tensors["r"].zero_point == 0
    assert done.plan.tensors["d"] == done.plan.tensors["y"]


def test_activations_of_one_kind_share_and_fold() -> None:
    done = quantized_case("concat of one kind")
    assert len(done.plan.folded) == 2
    assert done.plan.tensors["r"] == done.plan.tensors["p"] == done.plan.tensors["y"]


def test_only_integer_tensors_have_a_scale_and_a_folded_one_has_none() -> None:
    assert set(quantized_case("residual").plan.tensors) == {"x", "r", "d", "y"}
