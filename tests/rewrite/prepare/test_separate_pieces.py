"""Oracle: ONNX Runtime before and after, bit for bit, and the scales of a plan."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptq
from ptq.rewrite.prepare.prepare import prepare
from ptq.rewrite.prepare.separate_pieces import separate_pieces

BOXES, CLASSES = 6, 5
CHANNELS = BOXES + CLASSES
SPLIT = "k, l = Split<axis=1>(j, s)"
FLAT = ([0, CHANNELS, -1], [0, CHANNELS, -1])


def head(
    parsed, cut=SPLIT, *, opset=17, extra="", outputs="", batch="N", targets=FLAT, sizes=(6, 5)
):
    """Two levels of a head: boxes and classes joined, flattened, joined with the other level, split again."""
    text = f"""g (float[{batch},4,6,6] x, float[{batch},4,3,3] y)
        => (float[A,B,C] p, float[D,E,F] q{outputs}) {{
        a1 = Conv<kernel_shape=[1,1]>(x, wa)  b1 = Conv<kernel_shape=[1,1]>(x, wb)
        a2 = Conv<kernel_shape=[1,1]>(y, wa)  b2 = Conv<kernel_shape=[1,1]>(y, wb)
        j1 = Concat<axis=1>(a1, b1)  j2 = Concat<axis=-3>(a2, b2)
        r1 = Reshape(j1, t1)  r2 = Reshape(j2, t2)
        j = Concat<axis=2>(r1, r2)
        {cut}
        p = Relu(k)  q = Sigmoid(l)  {extra} }}"""
    w = np.random.default_rng(0).standard_normal((CHANNELS, 4, 1, 1)).astype(np.float32)
    integers = {"t1": targets[0], "t2": targets[1], "s": sizes}
    integers |= {
        "n": [0],
        "m": [BOXES],
        "e": [1000],
        "o": [1],
        "two": [2],
        "hw": [2, -1],
        "chw": [1, 2],
    }
    used = {
        name: np.array(value, np.int64)
        for name, value in integers.items()
        if re.search(rf"[ (]{name}\b", text)
    }
    return parsed(text, opset=opset, wa=w[:BOXES] * 30, wb=w[BOXES:], **used).with_shapes()


def feeds(rng, batch=2):
    shapes = {"x": (batch, 4, 6, 6), "y": (batch, 4, 3, 3)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


HEADS = {
    "split, sizes as an input": {},
    "split of opset 13": {"opset": 13},
    "split of opset 18 by a number": {
        "opset": 18,
        "cut": "k, l = Split<axis=-2, num_outputs=2>(j)",
    },
    "two slices": {"cut": "k = Slice(j, n, m, o)  l = Slice(j, m, e, o)"},
    "a piece is a graph output": {"outputs": ", float[G,H,I] k"},
    "fixed sizes": {"batch": "2", "targets": ([2, CHANNELS, 36], [2, CHANNELS, 9])},
    "the batch is the unknown size": {"targets": ([-1, CHANNELS, 36], [-1, CHANNELS, 9])},
    "the channels are the unknown size": {"batch": "2", "targets": ([2, -1, 36], [2, -1, 9])},
}


@pytest.mark.parametrize("kind", HEADS)
def test_boxes_and_classes_stay_apart_with_the_same_bits(
    kind, parsed, same_function, operators, rng
):
    before, after = (head(parsed, **HEADS[kind]) for _ in range(2))
    [change] = separate_pieces(after)
    assert (change.kind, change.count) == ("separate_pieces", 2)
    assert operators(after) == {"Conv": 4, "Reshape": 4, "Concat": 2, "Relu": 1, "Sigmoid": 1}
    same_function(before, after, feeds(rng), tolerance=0)


def test_heights_and_widths_of_the_levels_are_read_from_a_piece(
    parsed, same_function, operators, rng
):
    """As exports with dynamic sizes compute the grid of anchors."""
    kind = {"extra": "h = Shape(j1)  z = Gather(h, hw)", "outputs": ", int64[2] z"}
    before, after = (head(parsed, **kind) for _ in range(2))
    [change] = separate_pieces(after)
    assert change.count == 2
    assert operators(after)["Concat"] == 2
    same_function(before, after, feeds(rng), tolerance=0)


def test_split_of_opset_11_is_separated_after_its_upgrade(parsed, same_function, rng):
    before = head(parsed, "k, l = Split<axis=1, split=[6, 5]>(j)", opset=11)
    prepared = prepare(before)
    assert "kept 2 pieces of a Concat apart" in " ".join(prepared.describe_changes())
    same_function(before, prepared.graph, feeds(rng), tolerance=0)


def test_pieces_of_several_inputs_and_unused_pieces(parsed, same_function, operators, rng):
    text = """g (float[N,2,3] x) => (float[A,B] p) {
        a = Neg(x)  b = Tanh(x)  c = Sigmoid(x)
        j1 = Concat<axis=1>(a, b, c)  j2 = Concat<axis=1>(c, b, a)
        j = Concat<axis=0>(j1, j2)  f = Reshape(j, t)
        k, l = Split<axis=1>(f, s)  p = Relu(l) }"""
    integers = {"t": np.array([0, 0, -1]), "s": np.array([2, 4])}
    before, after = (parsed(text, **integers).with_shapes() for _ in range(2))
    [change] = separate_pieces(after)
    assert change.count == 1
    assert operators(after)["Concat"] == 3  # one for each level and one for both
    given = {"x": rng.standard_normal((2, 2, 3)).astype(np.float32)}
    same_function(before, after, given, tolerance=0)


UNTOUCHED = {
    "the joined levels have another reader": {"extra": "z = Neg(j)", "outputs": ", float[G,H,I] z"},
    "a level has another reader": {"extra": "z = Neg(r1)", "outputs": ", float[G,H,I] z"},
    "a Concat has another reader": {"extra": "z = Neg(j1)", "outputs": ", float[G,H,I,J] z"},
    "the joined levels are a graph output": {"outputs": ", float[G,H,I] j"},
    "a level is a graph output": {"outputs": ", float[G,H,I] r2"},
    "a Concat is a graph output": {"outputs": ", float[G,H,I,J] j2"},
    "the number of channels is read": {
        "extra": "h = Shape(j1)  z = Gather(h, chw)",
        "outputs": ", int64[2] z",
    },
    "the whole shape is read": {"extra": "z = Shape(j1)", "outputs": ", int64[4] z"},
    "the sizes do not match": {"sizes": (7, 4)},
    "one of three sizes does not match": {
        "cut": "k, l, v = Split<axis=1>(j, s)",
        "sizes": (6, 3, 2),
        "extra": "z = Neg(v)",
        "outputs": ", float[G,H,I] z",
    },
    "a slice with steps": {"cut": "k = Slice(j, n, m, o, two)  l = Slice(j, m, e, o)"},
    "the split is along the levels": {"cut": "k, l = Split<axis=2>(j, s)", "sizes": (36, 9)},
    "the reshape moves the batch into the channels": {
        "batch": "2",
        "targets": ([1, 2 * CHANNELS, -1], [1, 2 * CHANNELS, -1]),
        "sizes": (2 * BOXES, 2 * CLASSES),
    },
    "the reshape mixes channels and pixels": {
        "batch": "2",
        "targets": ([8, CHANNELS, -1], [8, CHANNELS, -1]),
    },
}


@pytest.mark.parametrize("kind", UNTOUCHED)
def test_other_heads_stay_as_they_are(kind, parsed):
    graph = head(parsed, **UNTOUCHED[kind])
    before = graph.to_bytes()
    assert separate_pieces(graph) == []
    assert graph.to_bytes() == before


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_boxes_and_scores_have_scales_of_their_own(target, parsed, rng):
    """Boxes of ±100 beside scores of ±3: with one scale the scores would have three bits."""
    graph = head(parsed)
    samples = [feeds(rng, 1) for _ in range(20)]
    plan = ptq.quantize(graph.to_proto(), samples, target=target, force=True, prefer="speed").plan
    boxes, scores = (float(plan.tensors[name].scale) for name in ("k", "l"))
    assert boxes > 10 * scores


@pytest.mark.parametrize("of", ["plan", "stats"])
def test_what_was_made_for_the_joined_tensors_still_applies(of, parsed, rng, applies_without):
    samples = [feeds(rng, 1) for _ in range(8)]
    applies_without(separate_pieces, head(parsed).to_proto(), samples, of)
