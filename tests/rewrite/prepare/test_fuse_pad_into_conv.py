from __future__ import annotations

import numpy as np
import pytest

from ptq.model.node import get_attributes
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fuse_pad_into_conv import fuse_pad_into_conv

CONSTANTS = {
    "w": np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3) / 36,
    "p": np.array([0, 0, 1, 0, 0, 0, 2, 1], np.int64),
    "channels": np.array([0, 1, 1, 0, 0, -1, 2, 1], np.int64),
    "cut": np.array([0, 0, -1, 0, 0, 0, 2, 1], np.int64),
    "zero": np.float32(0),
    "one": np.float32(1),
    "hw": np.array([3, -2], np.int64),
    "q": np.array([0, 1, 1, 2], np.int64),
}
PADDED = [
    ("Pad(x, p)", "Conv(t, w)"),
    ("Pad(x, p, zero)", "Conv<pads=[1,1,0,0], strides=[2,1]>(t, w)"),
    ("Pad(x, p)", 'Conv<auto_pad="VALID">(t, w)'),
    ("Pad(x, p)", "AveragePool<kernel_shape=[3,3]>(t)"),
    ("Pad(x, p)", "AveragePool<kernel_shape=[4,4], pads=[1,1,1,1], count_include_pad=1>(t)"),
]
KEPT = [
    ("Pad(x, p, one)", "Conv(t, w)"),
    ('Pad<mode="reflect">(x, p)', "Conv(t, w)"),
    ("Pad(x, cut)", "Conv(t, w)"),
    ("Pad(x, channels)", "Conv(t, w)"),
    ("Pad(x, p)", 'Conv<auto_pad="SAME_UPPER">(t, w)'),
    ("Pad(x, p)", "MaxPool<kernel_shape=[3,3]>(t)"),
    ("Pad(x, p)", "AveragePool<kernel_shape=[4,4], pads=[1,1,1,1]>(t)"),
    ("Pad(x, p)", "AveragePool<kernel_shape=[3,3], ceil_mode=1>(t)"),
    ("Pad(x, p)", "AveragePool<kernel_shape=[2,2]>(t)"),
]


@pytest.mark.parametrize(("pad", "call"), PADDED)
def test_zero_padding_goes_into(pad, call, parsed, same_function, operators, rng):
    text = f"g (float[1,2,5,6] x) => (float[1,2,a,b] y) {{ t = {pad} y = {call} }}"
    before, after = parsed(text, **CONSTANTS), parsed(text, **CONSTANTS)
    assert fuse_pad_into_conv(after) == [Change("fuse_pad_into_conv", 1)]
    assert operators(after).total() == 1
    same_function(before, after, {"x": rng.standard_normal((1, 2, 5, 6)).astype(np.float32)})


@pytest.mark.parametrize(("pad", "call"), KEPT)
def test_padding_stays_a_node_before(pad, call, parsed):
    text = f"g (float[1,2,5,6] x) => (float[1,2,a,b] y) {{ t = {pad} y = {call} }}"
    assert fuse_pad_into_conv(parsed(text, **CONSTANTS)) == []


def test_pads_by_axes_go_to_those_axes(parsed, same_function, rng):
    text = "g (float[1,2,5,6] x) => (float[1,2,a,b] y) { t = Pad(x, q, , hw) y = Conv(t, w) }"
    before, after = (parsed(text, opset=18, **CONSTANTS) for _ in range(2))
    fuse_pad_into_conv(after)
    assert list(get_attributes(after.nodes[0])["pads"]) == [1, 0, 2, 1]
    same_function(before, after, {"x": rng.standard_normal((1, 2, 5, 6)).astype(np.float32)})


def test_padding_goes_into_all_of_its_readers_or_into_none(parsed, operators, same_function, rng):
    text = """g (float[1,2,5,6] x) => (float[1,2,a,b] y) {{
        t = Pad(x, p) u = Conv(t, w) v = {other} y = Add(u, v) }}"""
    both = text.format(other="Conv(t, w)")
    before, after = parsed(both, **CONSTANTS), parsed(both, **CONSTANTS)
    fuse_pad_into_conv(after)
    assert operators(after) == {"Conv": 2, "Add": 1}
    same_function(before, after, {"x": rng.standard_normal((1, 2, 5, 6)).astype(np.float32)})
    one = parsed(text.format(other="MaxPool<kernel_shape=[3,3]>(t)"), **CONSTANTS)
    assert fuse_pad_into_conv(one) == []


def test_padding_that_a_sub_graph_reads_stays(parsed):
    text = """g (float[1,2,5,6] x, bool c) => (float[1,2,6,5] y) {
        t = Pad(x, p)
        y = If (c) <then_branch = a () => (float[1,2,6,5] u) { u = Conv(t, w) },
                    else_branch = b () => (float[1,2,6,5] v) { v = Conv(t, w) }> }"""
    assert fuse_pad_into_conv(parsed(text, **CONSTANTS)) == []
