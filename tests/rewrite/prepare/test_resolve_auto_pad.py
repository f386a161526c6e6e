from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from networks import find_disagreements, quantize_network

from ptq.model.node import get_attributes, get_operator
from ptq.model.session.session import Session
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.resolve_auto_pad import resolve_auto_pad

KINDS = {
    "Conv": "Conv<auto_pad={pad}, strides=[{s},1]>(x, w)",
    "MaxPool": "MaxPool<auto_pad={pad}, kernel_shape=[3,2], strides=[{s},2]>(x)",
    "AveragePool": "AveragePool<auto_pad={pad}, kernel_shape=[3,2], strides=[{s},1]>(x)",
    "AveragePool that counts pads": """AveragePool<auto_pad={pad}, kernel_shape=[3,3],
        strides=[{s},1], count_include_pad=1>(x)""",
    "MaxPool that rounds up": """MaxPool<auto_pad={pad}, kernel_shape=[3,2], strides=[{s},2],
        ceil_mode=1>(x)""",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_written_out_pads_mean_the_same_to_onnx_runtime(kind, pad, parsed, same_function, rng):
    for size, stride in itertools.product((6, 7, 8), (1, 2, 3)):
        call = KINDS[kind].format(pad=f'"{pad}"', s=stride)
        text = f"g (float[N,2,{size},9] x) => (float[N,2,a,b] y) {{ y = {call} }}"
        weight = rng.standard_normal((2, 2, 3, 2)).astype(np.float32)
        before, after = parsed(text, w=weight), parsed(text, w=weight)
        assert resolve_auto_pad(after) == [Change("resolve_auto_pad", 1)]
        attrs = get_attributes(after.nodes[0])
        assert "auto_pad" not in attrs
        assert len(attrs["pads"]) == 4
        x = rng.standard_normal((2, 2, size, 9)).astype(np.float32)
        same_function(before, after, {"x": x})


@pytest.mark.parametrize(
    "call",
    [
        'Conv<auto_pad="SAME_UPPER", dilations=[2,1]>(x, w)',
        'MaxPool<auto_pad="SAME_UPPER", dilations=[2,1], kernel_shape=[3,1], ceil_mode=1>(x)',
        'MaxPool<auto_pad="SAME_UPPER", kernel_shape=[1,1], strides=[4,4]>(x)',
        'AveragePool<auto_pad="SAME_LOWER", kernel_shape=[1,2], strides=[1,6]>(x)',
    ],
    ids=["Conv with dilations", "MaxPool with dilations", "MaxPool", "AveragePool"],
)
def test_auto_pad_stays(call, parsed):
    text = f"g (float[N,2,8,11] x) => (float[N,2,a,b] y) {{ y = {call} }}"
    weight = {"w": np.ones((2, 2, 3, 1), np.float32)} if "w)" in call else {}
    assert resolve_auto_pad(parsed(text, **weight)) == []


@pytest.mark.parametrize(("kernel", "stride", "kept"), [(1, 4, True), (1, 2, False)])
def test_a_pool_that_skips_positions_keeps_its_values(kernel, stride, kept, parsed, rng):
    """ONNX Runtime runs such pools with blocks of channels alone, behind a Conv."""
    text = f"""g (float[1,3,8,7] x) => (float[1,16,a,b] y) {{
        c = Conv<pads=[1,1,1,1]>(x, w)
        y = MaxPool<auto_pad="SAME_UPPER", kernel_shape=[{kernel},{kernel}], strides=[{stride},{stride}]>(c) }}"""
    weight = rng.standard_normal((16, 3, 3, 3)).astype(np.float32)
    before = parsed(text, w=weight).with_shapes()
    after = before.copy()
    resolve_auto_pad(after)
    assert ("auto_pad" in get_attributes(after.nodes[-1])) == kept
    x = rng.standard_normal((1, 3, 8, 7)).astype(np.float32)
    theirs, ours = (Session(g, threads=1).run({"x": x}, ["y"])[0] for g in (before, after))
    np.testing.assert_array_equal(ours, theirs)


def test_a_dilated_pool_keeps_the_shapes_of_its_model(parsed, rng):
    text = """g (float[1,3,12,12] x) => (float[1,8,12,12] y) {
        c = Conv<pads=[1,1,1,1]>(x, w)
        y = MaxPool<auto_pad="SAME_UPPER", dilations=[2,2], kernel_shape=[3,3]>(c) }"""
    graph = parsed(text, w=rng.standard_normal((8, 3, 3, 3)).astype(np.float32))
    done = quantize_network(
        graph.to_proto(), [{"x": rng.standard_normal((1, 3, 12, 12)).astype(np.float32)}]
    )
    onnx.checker.check_model(done.qdq.to_proto(), full_check=True)
    assert find_disagreements(done) == []


def test_an_average_pool_without_real_dilation_has_an_integer_kernel(parsed, same_function, rng):
    text = """g (float[N,2,8,9] x) => (float[N,2,a,b] y) {
        y = AveragePool<kernel_shape=[3,2], dilations=[1,1], pads=[1,0,1,1]>(x) }"""
    before, after = parsed(text, opset=19), parsed(text, opset=19)
    resolve_auto_pad(after)
    x = rng.standard_normal((2, 2, 8, 9)).astype(np.float32)
    same_function(before, after, {"x": x})
    done = quantize_network(before.to_proto(), [{"x": x[:1]}])
    operators = [get_operator(node) for node in done.qdq.nodes]
    assert operators[1:4] == ["DequantizeLinear", "AveragePool", "QuantizeLinear"]
    assert find_disagreements(done) == []


def test_sizes_that_vary_leave_auto_pad_as_it_is(parsed):
    text = """g (float[N,2,H,9] x) => (float[N,2,a,b] y) {
        y = MaxPool<auto_pad="SAME_UPPER", kernel_shape=[3,2]>(x) }"""
    graph = parsed(text)
    assert resolve_auto_pad(graph) == []
    assert get_attributes(graph.nodes[0])["auto_pad"] == "SAME_UPPER"


def test_the_kernel_shape_of_a_conv_comes_from_its_weight(parsed):
    graph = parsed(
        "g (float[N,2,H,W] x) => (float[N,4,a,b] y) { y = Conv(x, w) }",
        w=np.ones((4, 2, 3, 5), np.float32),
    )
    resolve_auto_pad(graph)
    assert list(get_attributes(graph.nodes[0])["kernel_shape"]) == [3, 5]
