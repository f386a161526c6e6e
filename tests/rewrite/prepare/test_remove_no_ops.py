from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.prepare.remove_no_ops import remove_no_ops


def i64(*values):
    return np.array(values, np.int64)


CONSTANTS = {
    "shape": i64(2, 3, 4),
    "swapped": i64(2, 4, 3),
    "copy": i64(0, -1, 4),
    "none": i64(0, 0, 0, 0, 0, 0),
    "some": i64(0, 0, 0, 0, 0, 1),
    "zeros": i64(0, 0),
    "four": i64(3, 4),
    "far": i64(2**31 - 1, 2**63 - 1),
    "less": i64(3, 3),
    "axes": i64(1, -1),
    "steps": i64(1, 2),
    "ratio": np.float32(0.5),
    "lowest": np.float32(-np.inf),
    "highest": np.float32(np.inf),
    "no": np.array(False),
}


@pytest.mark.parametrize(
    "call",
    [
        "Identity(r)",
        "Dropout(r)",
        "Dropout(r, ratio, no)",
        "Concat<axis=1>(r)",
        "Max(r)",
        "Max(lowest, r)",
        "Min(r, highest, highest)",
        "Cast<to=1>(r)",
        "Transpose<perm=[0,1,2]>(r)",
        "Pad(r, none)",
        "Slice(r, zeros, four, axes)",
        "Slice(r, zeros, far, axes)",
        "Reshape(r, shape)",
        "Reshape(r, copy)",
    ],
)
def test_without_effect_is(call, parsed, same_function, operators, rng):
    text = f"g (float[2,3,4] x) => (float[2,3,4] y) {{ r = Relu(x) t = {call} y = Neg(t) }}"
    before, after = parsed(text, **CONSTANTS), parsed(text, **CONSTANTS).with_shapes()
    (change,) = remove_no_ops(after)
    assert (change.kind, change.count) == ("remove_no_ops", 1)
    assert operators(after) == {"Relu": 1, "Neg": 1}
    same_function(before, after, {"x": rng.standard_normal((2, 3, 4)).astype(np.float32)})


@pytest.mark.parametrize(
    "call",
    [
        "Concat<axis=1>(r, r)",
        "Max(r, ratio)",
        "Cast<to=10>(r)",
        "Transpose<perm=[0,2,1]>(r)",
        "Transpose(r)",
        "Pad(r, some)",
        "Slice(r, zeros, less, axes)",
        "Slice(r, zeros, four, axes, steps)",
        "Reshape(r, swapped)",
        "Flatten(r)",
    ],
)
def test_with_effect_is(call, parsed, operators):
    text = f"g (float[2,3,4] x) => (float[a,b,c] y) {{ r = Relu(x) t = {call} y = Shape(t) }}"
    graph = parsed(text.replace("float[a,b,c]", "int64[n]"), **CONSTANTS)
    assert remove_no_ops(graph) == []
    assert operators(graph).total() == 3


def test_a_dropout_whose_mask_is_read_stays(parsed):
    text = "g (float[2] x) => (float[2] y, bool[2] m) { r = Relu(x) y, m = Dropout(r) }"
    assert remove_no_ops(parsed(text)) == []


def test_the_names_of_inputs_and_outputs_stay(parsed, same_function, operators, rng):
    text = """g (float[2] x) => (float[2] y, float[2] z, float[2] w) {
        y = Identity(x) r = Relu(x) z = Identity(r) w = Identity(c) }"""
    before, after = parsed(text, c=np.float32([1, 2])), parsed(text, c=np.float32([1, 2]))
    remove_no_ops(after)
    assert operators(after) == {"Identity": 2, "Relu": 1}
    assert [v.name for v in after.outputs] == ["y", "z", "w"]
    same_function(before, after, {"x": rng.standard_normal(2).astype(np.float32)})


def test_one_tensor_under_two_output_names_keeps_a_node_between(
    parsed, same_function, operators, rng
):
    text = (
        "g (float[2] x) => (float[2] y, float[2] z) { r = Relu(x) y = Identity(r) z = Identity(r) }"
    )
    before, after = parsed(text), parsed(text)
    remove_no_ops(after)
    assert operators(after) == {"Relu": 1, "Identity": 1}
    same_function(before, after, {"x": rng.standard_normal(2).astype(np.float32)})
