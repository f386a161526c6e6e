"""Resize and Pad by named axes; ONNX Runtime without optimization is the oracle for the same bits."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from ptq.model.node import get_attributes
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.expand_axes import expand_axes
from ptq.rewrite.prepare.node_shapes import infer_shapes

LINEAR = 'Resize<mode="linear", axes=[{axes}]>'
CROP = 'Resize<mode="linear", axes=[{axes}], coordinate_transformation_mode="tf_crop_and_resize">'
NODES = {
    "scales": f"{LINEAR}(x, , pair)",
    "sizes": f"{LINEAR}(x, , , sizes)",
    "roi": f"{CROP}(x, roi, pair)",
    "unread roi": f"{LINEAR}(x, every, pair)",
    "unread roi of odd length": f"{LINEAR}(x, one, pair)",
    "antialias": 'Resize<mode="linear", axes=[{axes}], antialias=1>(x, , pair)',
    "Pad": "Pad(x, pads, , {which})",
}
OPERANDS = """<float[2] pair = {1.7, 0.6}, int64[2] sizes = {13, 5}, float[4] roi = {0.1, 0.2, 0.7, 0.9},
    int64[4] pads = {1, -2, 3, 4}, int64[2] last = {-2, -1}, int64[2] turned = {3, 2},
    float[8] every = {0, 0, 0, 0, 1, 1, 1, 1}, float[1] one = {0}>"""
SHAPES = {"scales": (2, 11, 5, 2), "sizes": (2, 13, 5, 2), "Pad": (2, 11, 11, 2)}


@pytest.mark.parametrize("which", ["last", "turned"])
@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize("node", NODES)
def test_a_value_for_each_axis_computes_the_same_bits(
    node, batch, which, parsed, same_function, rng
):
    axes = {"last": "-2, -1", "turned": "3, 2"}[which]
    call = NODES[node].format(axes=axes, which=which)
    text = (
        f"g (float[{batch}, 2, 7, 9] x) => (float[{batch}, 2, h, w] y) {OPERANDS} {{ y = {call} }}"
    )
    before, after = parsed(text, opset=19), parsed(text, opset=19)
    assert expand_axes(after) == [Change("expand_axes", 1)]
    [found] = after.nodes
    assert "axes" not in get_attributes(found)
    assert len(found.inputs) < 4 or node == "sizes" or found.inputs[3] is None
    feed = {"x": rng.standard_normal((2, 2, 7, 9)).astype(np.float32)}
    same_function(before, after, feed, tolerance=0)


@pytest.mark.parametrize("node", ["scales", "sizes", "Pad"])
def test_onnx_runtime_moves_transposes_across_the_new_node(node, parsed, rng):
    call = NODES[node].format(axes="2, 3", which="last").replace("(x", "(t")
    text = f"""g (float[N, 7, 9, 2] x) => (float[N, h, w, 2] y) {OPERANDS} {{
        t = Transpose<perm=[0, 3, 1, 2]>(x) u = {call} y = Transpose<perm=[0, 2, 3, 1]>(u) }}"""
    graph = parsed(text, opset=19)
    infer_shapes(graph)
    expand_axes(graph)
    x = rng.standard_normal((2, 7, 9, 2)).astype(np.float32)
    session = onnxruntime.InferenceSession(graph.to_bytes(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": x})[0].shape == SHAPES[node]


@pytest.mark.parametrize(
    "call",
    [
        'Resize<axes=[2, 3], keep_aspect_ratio_policy="not_larger">(x, , , sizes)',
        "Resize<axes=[2, 3]>(x, , , rounded)",
        "Resize(x, , all)",
        'Resize<axes=[2, 3], coordinate_transformation_mode="tf_crop_and_resize">(x, whole, two)',
        "Pad(x, every)",
    ],
)
def test_what_has_no_equal_of_all_axes_stays(call, parsed):
    text = f"""g (float[N, 2, 7, 9] x) => (float[N, 2, h, w] y)
    <int64[2] sizes = {{13, 5}}, int64[2] rounded = {{31, 9}}, float[4] all = {{1, 1, 2, 2}},
     int64[8] every = {{0, 0, 1, 1, 0, 0, 1, 1}},
     float[8] whole = {{0, 0, 0, 0, 1, 1, 1, 1}}, float[2] two = {{2, 2}}>
    {{ y = {call} }}"""
    assert expand_axes(parsed(text, opset=19)) == []
