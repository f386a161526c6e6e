"""What each row of the target table promises of the graphs that are written for it."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array, quantize_network, worst_sqnr_db

from ptq.core.targets import TARGETS
from ptq.model.node import QUANTIZERS, get_dtype, get_operator

SAME = "<pads = [1, 1, 1, 1]>"
NETWORK = build_network(
    f"c = Conv{SAME}(x, u, b)\nr = Relu(c)\nd = Conv{SAME}(r, v, b)\ns = Add(d, r)\n"
    "j = Concat<axis = 1>(s, r)\ng = GlobalAveragePool(j)\nf = Flatten(g)\nh = Gemm(f, w)\ny = Softmax(h)",
    u=gaussian_array(8, 3, 3, 3, scale=0.2),
    v=gaussian_array(8, 8, 3, 3, seed=1, scale=0.1),
    b=gaussian_array(8, seed=2),
    w=gaussian_array(16, 4, seed=3),
)
TYPES = {
    "tensorrt": {"int8"},
    "openvino": {"uint8", "int8"},
    "portable": {"uint8", "int8"},
    "qnn": {"uint8", "int8", "int32"},
    "litert-xnnpack": {"int8", "int32"},
    "litert-a16": {"int16", "int8", "int32"},
    "qnn-a16": {"uint16", "int8", "int32"},
    "ort-xnnpack": {"int8", "int32"},
}


@pytest.mark.parametrize("target", TYPES)
def test_only_these_integer_types_are_written(target: str) -> None:
    done = quantize_network(NETWORK, target=target)
    read = [n.inputs[0] for n in done.qdq.nodes if n.op_type == "DequantizeLinear"]
    assert {str(get_dtype(value)) for value in read if value is not None} == TYPES[target]
    assert worst_sqnr_db(done) > 25


@pytest.mark.parametrize("target", TYPES)
def test_only_quantizers_of_16_bits_are_of_another_domain(target: str) -> None:
    done = quantize_network(NETWORK, target=target)
    other = {node.domain for node in done.qdq.nodes} - {""}
    assert other == ({"com.microsoft"} if target.endswith("-a16") else set())


@pytest.mark.parametrize("target", ["openvino", "portable"])
def test_only_what_products_read_is_quantized(target: str) -> None:
    done = quantize_network(NETWORK, target=target)
    layers = [n for n in done.qdq.nodes if get_operator(n) in ("Conv", "Gemm")]
    products = [
        n for n in layers if "faster in float" not in done.plan.floats.get(n.name or "", "")
    ]
    assert len(products) >= (1 if target == "openvino" else len(layers))
    read = {value for node in products for value in node.inputs[:2]}
    back = [n.outputs[0] for n in done.qdq.nodes if get_operator(n) == "DequantizeLinear"]
    assert {*back} == read


def test_everything_is_quantized_for_qnn() -> None:
    plan = quantize_network(NETWORK, target="qnn").plan
    assert plan.floats == {}
    # a clamp between two different scales would be computed wrong
    assert plan.tensors["c"] == plan.tensors["r"]


@pytest.mark.parametrize("target", ["qnn", "ort-xnnpack"])
def test_a_folded_activation_leaves_no_node(target: str) -> None:
    model = build_network(
        f"c = Conv{SAME}(x, u)\nr = Relu(c)\ny = Conv{SAME}(r, v)",
        u=gaussian_array(8, 3, 3, 3),
        v=gaussian_array(8, 8, 3, 3),
    )
    done = quantize_network(model, target=target)
    assert [*done.plan.folded] == ["Relu_r"]
    assert {get_operator(n) for n in done.qdq.nodes} == {"Conv", *QUANTIZERS}


def test_softmax_has_the_fixed_range_for_qnn_and_xnnpack() -> None:
    for target, zero_point in (("qnn", 0), ("ort-xnnpack", -128)):
        params = quantize_network(NETWORK, target=target).plan.tensors["y"]
        assert (float(params.scale), int(params.zero_point)) == (1 / 256, zero_point)


@pytest.mark.parametrize("target", ["openvino", "portable", "litert-xnnpack"])
def test_products_of_two_activations_stay_float(target: str) -> None:
    model = build_network(
        "t = Transpose<perm = [0, 2, 1]>(x)\ns = MatMul(x, t)\ny = MatMul(s, w)",
        {"x": (1, 6, 16)},
        w=gaussian_array(6, 5),
    )
    plan = quantize_network(model, target=target).plan
    assert [*plan.operands] == [("MatMul_y", 1)]
    assert "product of two activations" in plan.floats["MatMul_s"]


@pytest.mark.parametrize("target", ["openvino", "portable", "qnn", "ort-xnnpack", "tensorrt"])
def test_the_same_samples_give_the_same_bytes(target: str) -> None:
    one, other = (quantize_network(NETWORK, target=target) for _ in range(2))
    assert one.plan.to_json() == other.plan.to_json()
    assert np.array_equal(
        np.frombuffer(one.qdq.to_proto().SerializeToString(), np.uint8),
        np.frombuffer(other.qdq.to_proto().SerializeToString(), np.uint8),
    )


def test_every_row_says_where_its_facts_come_from() -> None:
    assert all(row.source for row in TARGETS.values())
