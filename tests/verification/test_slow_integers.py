"""The usual reasons for slow integers, each on a model made for it, in ONNX Runtime's own optimized graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from ptq.model.graph import Graph
from ptq.verification import slow_integers
from ptq.verification.slow_integers import find_slow_patterns

WIDE = 64


@pytest.fixture(autouse=True)
def _exact_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with VNNI, whatever runs the tests."""
    monkeypatch.setattr(slow_integers, "has_exact_int8_sums", lambda: True)


class Builder:
    """A QDQ graph, a node after another."""

    def __init__(self, shape: Sequence[int | str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants = {
            "scale": np.float32(0.1),
            "zero": np.uint8(128),
            "weight_zero": np.int8(0),
        }
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        self.last = "x"
        self.quantize()

    def node(self, op: str, *more: str, **attributes: Any) -> Builder:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *more], [name], name=name, **attributes))
        self.last = name
        return self

    def quantize(self) -> Builder:
        self.node("QuantizeLinear", "scale", "zero")
        return self.node("DequantizeLinear", "scale", "zero")

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.nodes)}"
        values = np.random.default_rng(0).integers(-60, 60, shape).astype(np.int8)
        self.constants[name] = values
        made = [name, "scale", "weight_zero"]
        self.nodes.append(helper.make_node("DequantizeLinear", made, [f"{name}f"], name=f"{name}q"))
        return f"{name}f"

    def conv(self, inputs: int, outputs: int) -> Builder:
        self.node("Conv", self.weight(outputs, inputs, 3, 3), pads=[1, 1, 1, 1])
        return self.quantize()

    def matmul(self, inputs: int, outputs: int) -> Builder:
        return self.node("MatMul", self.weight(inputs, outputs)).quantize()

    def build(self) -> Graph:
        tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in self.constants.items()]
        output = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [self.input], [output], tensors)
        opset = [helper.make_opsetid("", 17)]
        return Graph.from_proto(helper.make_model(graph, opset_imports=opset, ir_version=8))


def causes(builder: Builder) -> list[str]:
    return [pattern.cause for pattern in find_slow_patterns(builder.build())]


def images(channels: int = WIDE) -> Builder:
    return Builder([1, channels, 16, 16])


def test_layers_that_all_fuse_have_no_reason_to_be_slow() -> None:
    assert causes(images().conv(WIDE, WIDE).conv(WIDE, WIDE)) == []
    assert causes(Builder([1, 32, WIDE]).matmul(WIDE, WIDE).matmul(WIDE, WIDE)) == []


def test_float_nodes_between_integers_are_an_island() -> None:
    made = images().conv(WIDE, WIDE).node("Sin").node("Erf").quantize().conv(WIDE, WIDE)
    [pattern] = find_slow_patterns(made.build())
    assert pattern.cause == "float islands"
    assert str(pattern).startswith("2 nodes between integers run in float (1 Sin, 1 Erf): each")


def test_float_nodes_at_the_end_are_no_island() -> None:
    assert causes(images().conv(WIDE, WIDE).node("Sin").node("Erf")) == []


def test_a_transpose_between_layers_breaks_their_fusion() -> None:
    made = Builder([1, WIDE, WIDE]).matmul(WIDE, WIDE)
    made.node("Transpose", perm=[0, 2, 1]).quantize().matmul(WIDE, WIDE)
    [pattern] = find_slow_patterns(made.build())
    assert pattern.cause == "transposes"
    assert str(pattern).startswith("1 Transpose between quantizers and layers: ONNX Runtime fuses")
    assert pattern.advice.startswith("expect less gain")


def test_a_transpose_makes_a_quantizer_with_a_scale_for_each_channel_slow() -> None:
    made = Builder([1, 32, WIDE]).matmul(WIDE, WIDE).node("Sin")
    made.constants |= {"scales": np.full(WIDE, np.float32(0.1)), "zeros": np.full(WIDE, np.uint8(128))}  # fmt: skip
    turned = made.node("Transpose", perm=[0, 2, 1]).node(
        "QuantizeLinear", "scales", "zeros", axis=1
    )
    found = find_slow_patterns(turned.node("DequantizeLinear", "scale", "zero").build())
    assert found[0].cause == "per-channel quantizers"
    assert str(found[0]).startswith("1 QuantizeLinear node with a scale for each channel, channels")


def test_convolutions_of_few_channels_gain_nothing() -> None:
    [pattern] = find_slow_patterns(images(2).conv(2, 8).conv(8, 8).build())
    assert pattern.cause == "small channels"
    assert str(pattern).startswith("2 of 2 integer layers have few channels (sums of fewer than")


def test_one_layer_is_counted_in_the_singular() -> None:
    [pattern] = find_slow_patterns(Builder([1, WIDE]).matmul(WIDE, WIDE).build())
    assert str(pattern).startswith("1 of 1 integer layer multiplies at most 4 rows at once")
    [pattern] = find_slow_patterns(images(2).conv(2, 8).build())
    assert str(pattern).startswith("1 of 1 integer layer has few channels")


def test_one_small_layer_among_others_is_no_reason() -> None:
    assert causes(images(2).conv(2, WIDE).conv(WIDE, WIDE).conv(WIDE, WIDE)) == []


def test_products_of_one_row_wait_for_their_weights() -> None:
    [pattern] = find_slow_patterns(Builder([1, WIDE]).matmul(WIDE, WIDE).matmul(WIDE, WIDE).build())
    assert pattern.cause == "few rows"
    assert str(pattern).startswith("2 of 2 integer layers multiply at most 4 rows at once (a batch")


def test_tokens_of_a_sample_are_rows_where_the_batch_varies() -> None:
    made = Builder(["N", 32, WIDE])
    made.constants |= {"rows": np.array([-1, WIDE]), "back": np.array([-1, 32, WIDE])}
    made.node("Reshape", "rows").matmul(WIDE, WIDE).matmul(WIDE, WIDE).node("Reshape", "back")
    assert causes(made) == []
    assert causes(Builder(["N", WIDE]).matmul(WIDE, WIDE)) == ["few rows"]


def test_a_processor_without_vnni_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_integers, "has_exact_int8_sums", lambda: False)
    monkeypatch.setattr(slow_integers.platform, "machine", lambda: "x86_64")
    [pattern] = find_slow_patterns(images().conv(WIDE, WIDE).build())
    assert pattern.cause == "no VNNI"
    assert "no VNNI" in pattern.what
    monkeypatch.setattr(slow_integers.platform, "machine", lambda: "aarch64")
    assert causes(images().conv(WIDE, WIDE)) == []
