from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from ptq.model.node import get_attributes, get_constant, get_shape
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fold_constants import fold_constants
from ptq.rewrite.prepare.fold_where import fold_where
from ptq.rewrite.prepare.name_dimensions import name_dimensions


def i64(*values):
    return np.array(values, np.int64)


def test_a_weight_behind_nodes_becomes_an_initializer_under_its_last_name(
    parsed, same_function, operators, rng
):
    text = """g (float[2,6] x) => (float[2,4] y) {
        a = Identity(w) b = Cast<to=1>(a) c = Reshape(b, s) d = Transpose<perm=[1,0]>(c)
        y = MatMul(x, d) }"""
    constants = {"w": rng.standard_normal((24, 1)).astype(np.float16), "s": i64(4, 6)}
    before, after = parsed(text, **constants), parsed(text, **constants)
    assert fold_constants(after) == [Change("fold_constants", 4)]
    assert operators(after) == {"MatMul": 1}
    assert after.nodes[0].inputs[1].name == "d"
    same_function(before, after, {"x": rng.standard_normal((2, 6)).astype(np.float32)})


def test_a_cast_to_the_type_of_another_tensor_reads_none_of_its_values(
    parsed, same_function, operators
):
    text = """g (float[2] x, int64[2] n) => (float[2] y) {
        t = CastLike(c, x) m = CastLike(n, x) a = Mul(m, t) y = Add(a, x) }"""
    constants = {"c": np.float16([0.5, -3])}
    before, after = parsed(text, **constants), parsed(text, **constants)
    assert fold_constants(after) == [Change("fold_constants", 1)]
    assert operators(after) == {"Cast": 1, "Mul": 1, "Add": 1}
    same_function(before, after, {"x": np.float32([1, 2]), "n": i64(3, -4)})


@pytest.mark.parametrize(
    "call",
    [
        "RandomNormalLike(w)",
        "Bernoulli(w)",
        "DequantizeLinear(q, w)",
        "QuantizeLinear(w, w)",
        "Expand(w, huge)",
        "ConstantOfShape(huge)",
    ],
)
def test_what_is_random_quantized_or_huge_stays_a_node(call, parsed, operators):
    kind, _, _ = call.partition("(")
    text = f"g (float[1] x) => (float[1] y) {{ t = {call} m = Cast<to=1>(t) y = Mul(x, m) }}"
    graph = parsed(text, w=np.float32(1), q=np.int8(3), huge=i64(100_000_000))
    fold_constants(graph)
    assert operators(graph)[kind] == 1


@pytest.mark.parametrize(
    "call",
    [
        "Slice(w, far, far, zero, minus)",
        "LpNormalization<p = 1>(w)",
        "LRN<size = 3>(image)",
        'Resize<mode = "nearest">(six, , scales)',
        'MaxPool<kernel_shape = [2], strides = [2], auto_pad = "SAME_LOWER">(w)',
        "GRU<hidden_size = 1>(w, k, r, , length)",
        'LSTM<hidden_size = 1, direction = "bidirectional", clip = 0.1>(w, lk, lr)',
    ],
)
def test_a_constant_is_what_onnx_runtime_computes(call, parsed, same_function, rng):
    text = f"g (float[1] x) => (float[k] y) {{ t = {call} y = Mul(x, t) }}"
    shapes = {"w": (3, 1, 5), "k": (1, 3, 5), "r": (1, 3, 1), "lk": (2, 4, 5), "lr": (2, 4, 1)}
    shapes["image"] = (1, 5, 2, 2)
    constants = {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    constants |= {"six": np.arange(6, dtype=np.float32), "scales": np.float32([7 / 6])}
    constants |= {"far": i64(-9), "zero": i64(0), "minus": i64(-1), "length": np.int32([2])}
    used = {name: array for name, array in constants.items() if name in call}
    before, after = parsed(text, **used), parsed(text, **used)
    fold_constants(after)
    same_function(before, after, {"x": np.float32([1])})


@pytest.mark.parametrize("call", ["LpNormalization(w)", "MaxPool<kernel_shape = [2]>(w)"])
def test_forms_that_the_evaluator_computes_rightly_are_folded(call, parsed, same_function, rng):
    text = f"g (float[1] x) => (float[k] y) {{ t = {call} y = Mul(x, t) }}"
    w = rng.standard_normal((3, 1, 5)).astype(np.float32)
    before, after = parsed(text, w=w), parsed(text, w=w)
    fold_constants(after)
    assert [node.op_type for node in after.nodes] == ["Mul"]
    same_function(before, after, {"x": np.float32([1])})


def test_a_constant_that_is_a_graph_output_keeps_its_node(parsed, operators):
    graph = parsed(
        "g (float[1] x) => (float[1] y, float[1] n) { n = Neg(w) y = Add(x, n) }", w=[1.0]
    )
    fold_constants(graph)
    assert operators(graph) == {"Neg": 1, "Add": 1}


@pytest.mark.parametrize("batch", [1, 5])
def test_flattening_by_shape_arithmetic_gets_a_constant_target_that_holds_for_every_batch(
    batch, parsed, same_function, operators, rng
):
    text = """g (float[N,3,4,5] x) => (float[N,60] y) {
        s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, axis) t = Concat<axis=0>(u, rest)
        y = Reshape(x, t) }"""
    constants = {"zero": np.int64(0), "axis": i64(0), "rest": i64(-1)}
    before, after = parsed(text, **constants), parsed(text, **constants)
    assert fold_constants(after) == [Change("fold_reshape_target")]
    assert operators(after) == {"Reshape": 1}
    assert get_constant(after.nodes[0].inputs[1]).tolist() == [0, -1]
    same_function(before, after, {"x": rng.standard_normal((batch, 3, 4, 5)).astype(np.float32)})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("Concat<axis=0>(n, four, fifteen)", [0, 4, 15]),
        ("Concat<axis=0>(four, n, fifteen)", [4, -1, 15]),
        ("Concat<axis=0>(n2, thirty)", [-1, 30]),
        ("Concat<axis=0>(n, h, minus)", None),
    ],
)
def test_a_target_is_constant_where_at_most_one_dimension_is_left_to_infer(
    target, expected, parsed, same_function, rng
):
    text = f"""g (float[N,3,H,5] x) => (float[A] y) {{
        s = Shape(x) n = Slice(s, zero, one, zero) h = Slice(s, two, three, zero)
        n2 = Mul(n, two) t = {target} r = Reshape(x, t) y = Reshape(r, minus) }}"""
    values = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "fifteen": 15, "thirty": 30}
    constants = {name: i64(value) for name, value in values.items()} | {"minus": i64(-1)}
    before, after = parsed(text, **constants), parsed(text, **constants)
    fold_constants(after)
    reshape = next(n for n in after.nodes if n.outputs[0].name == "r")
    got = get_constant(reshape.inputs[1])
    assert (None if got is None else got.tolist()) == expected
    same_function(before, after, {"x": rng.standard_normal((2, 3, 4, 5)).astype(np.float32)})


def test_dimensions_that_are_all_called_question_mark_are_not_taken_for_equal(
    parsed, same_function, rng
):
    graph = parsed(
        """g (float[a,b,4] x) => (float[c,d,4] y) {
        s = Shape(x) g = Gather(s, order) y = Reshape(x, g) }""",
        order=i64(1, 0, 2),
    )
    proto = graph.to_proto()
    for dim in list(proto.graph.input[0].type.tensor_type.shape.dim)[:2]:
        dim.dim_param = "?"
    before, after = type(graph).from_proto(proto), type(graph).from_proto(proto)
    fold_constants(after)
    same_function(before, after, {"x": rng.standard_normal((2, 3, 4)).astype(np.float32)})


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize(
    "call",
    [
        "Where(b, one, two)",
        "Sub(k, n)",
        "Slice(s, far, far, zero, minus)",
        "Slice(s, far, zero, zero, minus)",
    ],
)
def test_a_length_is_no_boolean_and_a_slice_starts_inside_its_tensor(
    call, rows, parsed, same_function
):
    text = f"""g (float[N,3] x) => (float[k] y) {{
        s = Shape(x) n = Slice(s, zero, one) b = Cast<to=9>(n) k = Cast<to=7>(b)
        t = {call} y = Cast<to=1>(t) }}"""
    values = {"zero": 0, "one": 1, "two": 2, "minus": -1, "far": -20}
    constants = {name: i64(value) for name, value in values.items()}
    before, after = parsed(text, **constants), parsed(text, **constants)
    fold_constants(after)
    same_function(before, after, {"x": np.ones((rows, 3), np.float32)})


def test_a_nameless_axis_is_not_taken_for_another_inputs_axis_of_that_name(parsed, same_function):
    graph = parsed(
        """g (float[a,4] x, float[x_dim_0,2] z) => (float[c,d] y) {
        s = Shape(z) n = Slice(s, zero, one) t = Concat<axis=0>(n, minus) y = Reshape(x, t) }""",
        zero=i64(0),
        one=i64(1),
        minus=i64(-1),
    )
    proto = graph.to_proto()
    proto.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    before, after = type(graph).from_proto(proto), type(graph).from_proto(proto)
    name_dimensions(after)
    fold_constants(after)
    same_function(
        before, after, {"x": np.ones((2, 4), np.float32), "z": np.ones((4, 2), np.float32)}
    )


def test_pads_computed_from_static_sizes_become_constant(parsed, same_function, operators, rng):
    text = """g (float[N,2,7,9] x) => (float[N,2,8,10] y) {
        s = Shape(x) hw = Slice(s, two, four) m = Mod(hw, two) z = Concat<axis=0>(zeros, zeros, m)
        p = Concat<axis=0>(zeros, m) q = Concat<axis=0>(zeros, zeros, p) y = Pad(x, q) }"""
    constants = {"two": i64(2), "four": i64(4), "zeros": i64(0, 0)}
    before, after = parsed(text, **constants), parsed(text, **constants)
    fold_constants(after)
    assert operators(after) == {"Pad": 1}
    assert get_constant(after.nodes[0].inputs[1]).tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    same_function(before, after, {"x": rng.standard_normal((3, 2, 7, 9)).astype(np.float32)})


def test_shapes_behind_a_folded_pad_are_static_too(parsed, operators):
    text = """g (float[N,2,7,9] x) => (float[A] y) {
        s = Shape(x) h = Slice(s, two, three) p = Concat<axis=0>(zeros, zeros, zeros, h, one)
        t = Pad(x, p) u = Shape(t) v = Slice(u, two, four) w = Cast<to=1>(v) y = Identity(w) }"""
    constants = {"one": i64(1), "two": i64(2), "three": i64(3), "four": i64(4), "zeros": i64(0, 0)}
    graph = parsed(text, **constants)
    fold_constants(graph)
    assert operators(graph) == {"Identity": 1}
    assert get_constant(graph.nodes[0].inputs[0]).tolist() == [14.0, 10.0]


@pytest.mark.parametrize(("rows", "stays"), [("float[N,3]", False), ("float[1,3]", True)])
def test_an_expand_goes_where_the_data_have_the_shape_already(
    rows, stays, parsed, operators, same_function, rng
):
    text = f"""g (float[N,3] x, {rows} r) => (float[N,3] y) {{
        s = Shape(x) e = Expand(r, s) y = Mul(e, x) }}"""
    before, after = parsed(text), parsed(text)
    fold_constants(after)
    assert operators(after)["Expand"] == stays
    rank = rng.standard_normal((1 if stays else 2, 3)).astype(np.float32)
    same_function(before, after, {"x": rng.standard_normal((2, 3)).astype(np.float32), "r": rank})


def test_expanding_a_class_token_gives_the_shape_of_what_follows(parsed):
    text = """g (float[N,7,4] x) => (float[N,8,4] y) {
        s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, minus, minus)
        k = Equal(t, minus) w = Where(k, one, t) e = Expand(token, w)
        c = Concat<axis=1>(e, x) y = Relu(c) }"""
    constants = {"zero": i64(0), "one": i64(1), "minus": i64(-1)}
    graph = parsed(text, token=np.ones((1, 1, 4), np.float32), **constants)
    fold_constants(graph)
    (concat,) = [n for n in graph.nodes if n.op_type == "Concat" and get_attributes(n)["axis"] == 1]
    assert get_shape(concat.outputs[0]) == (None, 8, 4)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_where_on_a_shape_leaves_no_boolean_constant(
    batch, parsed, same_function, operators, rng
):
    text = """g (float[N,7,4] x) => (float[N,8,4] y) {
        s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, minus, minus)
        k = Equal(t, minus) w = Where(k, ones, t) e = Expand(token, w)
        c = Concat<axis=1>(e, x) y = Relu(c) }"""
    constants = {"zero": i64(0), "one": i64(1), "minus": i64(-1), "ones": i64(1, 1, 1)}
    token = rng.standard_normal((1, 1, 4)).astype(np.float32)
    before, after = (parsed(text, token=token, **constants) for _ in range(2))
    fold_constants(after)
    assert fold_where(after) == [Change("fold_where", 1)]
    assert operators(after) == {"Shape": 1, "Slice": 1, "Concat": 2, "Expand": 1, "Relu": 1}
    assert not [v for v in after.to_proto().graph.initializer if v.data_type == TensorProto.BOOL]
    x = rng.standard_normal((batch, 7, 4)).astype(np.float32)
    same_function(before, after, {"x": x})


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("Where(k, pair, s)", "the operand is a piece of two sizes"),
        ("Where(b, pair, s)", "the condition is no constant"),
    ],
)
def test_a_where_that_picks_no_single_pieces_stays(where, reason, parsed, operators):
    text = (
        f"g (float[N,M] x, bool[2] b) => (int64[2] y) {{ s = Shape(x) w = {where} y = Add(w, w) }}"
    )
    graph = parsed(text, k=np.array([True, False]), pair=i64(4, 5))
    fold_constants(graph)
    assert fold_where(graph) == []
    assert operators(graph)["Where"] == 1, reason


@pytest.mark.parametrize("condition", [True, False])
def test_a_constant_that_a_sub_graph_reads_is_folded_and_the_sub_graph_stays(
    condition, parsed, same_function, operators, rng
):
    text = """g (float[2] x, bool c) => (float[2] y) {
        n = Neg(w)
        i = If (c) <then_branch = a () => (float[2] p) { m = Neg(w) p = Add(m, n) },
                    else_branch = b () => (float[2] q) { q = Identity(n) }>
        y = Mul(i, x) }"""
    weight = np.float32([1, 2])
    before, after = parsed(text, w=weight), parsed(text, w=weight)
    fold_constants(after)
    assert operators(after) == {"If": 1, "Mul": 1}
    inside = [n.op_type for n in get_attributes(after.nodes[0])["then_branch"]]
    assert inside == ["Neg", "Add"]
    feeds = {"x": rng.standard_normal(2).astype(np.float32), "c": np.array(condition)}
    same_function(before, after, feeds)
