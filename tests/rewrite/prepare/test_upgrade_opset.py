from __future__ import annotations

import numpy as np
import pytest

from ptq.core.errors import ModelError
from ptq.model.node import get_attributes
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.upgrade_opset import upgrade_opset


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", ["axis=2", "axis=-1"])
def test_a_softmax_along_the_last_axis_stays_one_node(op, axis, parsed, same_function, rng):
    text = f"g (float[2,3,4] x) => (float[2,3,4] y) {{ y = {op}<{axis}>(x) }}"
    before = parsed(text, opset=11)
    after = before.copy()
    assert upgrade_opset(after) == [Change("upgrade_opset", old="11", new="17")]
    assert [n.op_type for n in after.nodes] == [op]
    assert get_attributes(after.nodes[0])["axis"] == -1
    assert after.to_proto().ir_version >= 8
    same_function(before, after, {"x": rng.standard_normal((2, 3, 4)).astype(np.float32)})


@pytest.mark.parametrize("axis", ["", "<axis=1>", "<axis=0>"])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_softmax_along_several_axes_keeps_its_meaning(op, axis, parsed, same_function, rng):
    before = parsed(f"g (float[2,3,4] x) => (float[2,3,4] y) {{ y = {op}{axis}(x) }}", opset=9)
    after = before.copy()
    upgrade_opset(after)
    same_function(before, after, {"x": rng.standard_normal((2, 3, 4)).astype(np.float32)})


def test_attributes_that_became_inputs_are_converted_inside_sub_graphs_too(
    parsed, same_function, rng
):
    text = """g (float[2,3] x, bool c) => (float[2,3] y) {
        k = Clip<min=-0.5, max=0.5>(x)
        y = If (c) <then_branch = a () => (float[2,3] p) { p = Softmax<axis=0>(k) },
                    else_branch = b () => (float[2,3] q) { q = Clip<min=0.0>(k) }> }"""
    before = parsed(text, opset=9)
    after = before.copy()
    upgrade_opset(after)
    for condition in (True, False):
        x = rng.standard_normal((2, 3)).astype(np.float32)
        same_function(before, after, {"x": x, "c": np.array(condition)})


@pytest.mark.parametrize("opset", [13, 15, 21])
def test_from_opset_13_on_nothing_changes(opset, parsed):
    graph = parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=opset)
    digest = graph.digest()
    assert upgrade_opset(graph) == []
    assert graph.digest() == digest


def test_an_operator_without_a_rule_is_refused_by_name(parsed):
    text = "g (float[3,1,2] x) => (float[3,1,1,2] y) { y, h = GRU<hidden_size=2>(x, w, w) }"
    graph = parsed(text, opset=3, w=np.ones((1, 6, 2), np.float32))
    message = r"opset 3 cannot be raised to 13 \(No Adapter .* for GRU\); export a newer opset"
    with pytest.raises(ModelError, match=f"^{message}$"):
        upgrade_opset(graph)


def test_a_scan_with_a_batch_is_refused(parsed):
    """Oracle: ONNX's specification; its converter gives the operator of opset 9 the inputs of opset 8."""
    text = """g (float[1,2] s, float[1,3,2] x) => (float[1,2] t, float[1,3,2] y) {
        t, y = Scan <num_scan_inputs=1, body = b (float[2] a, float[2] i) => (float[2] n, float[2] o) {
            n = Add(a, i)
            o = Identity(n) }> ("", s, x) }"""
    with pytest.raises(ModelError, match=r"^Scan \S+ of opset 8 has a batch axis, which opset 9"):
        upgrade_opset(parsed(text.replace('""', ""), opset=8))


@pytest.mark.parametrize(("op", "opset"), [("Upsample", 9), ("Resize", 10)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("factor", [2.0, 1.5, 0.6])
def test_a_resize_of_an_old_opset_keeps_its_pixels(
    op, opset, mode, factor, parsed, same_function, rng
):
    if op == "Upsample" and factor < 1:
        pytest.skip("it only extends")
    before = parsed(
        f'g (float[1,2,6,6] x) => (float[1,2,m,n] y) {{ y = {op}<mode="{mode}">(x, s) }}',
        opset=opset,
        s=np.array([1, 1, factor, factor], np.float32),
    )
    after = before.copy()
    upgrade_opset(after)
    same_function(before, after, {"x": rng.standard_normal((1, 2, 6, 6)).astype(np.float32)})


def test_an_old_resize_that_shrinks_one_axis_and_extends_another_is_refused(parsed):
    graph = parsed(
        "g (float[1,2,6,6] x) => (float[1,2,m,n] y) { y = Resize(x, s) }",
        opset=10,
        s=np.array([1, 1, 2, 0.5], np.float32),
    )
    with pytest.raises(ModelError, match="shrinks one axis and extends another"):
        upgrade_opset(graph)
