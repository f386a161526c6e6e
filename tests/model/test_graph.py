"""What do copies of a graph have in common? The weights, and nothing that a rewrite changes; bytes are the oracle."""

from __future__ import annotations

import numpy as np
from onnx import parser

from ptq.model.graph import Graph
from ptq.model.node import get_constant

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
main (float[N, 2] x, bool c) => (float[N, 2] y) <float[2] w = {1, 2}> {
    s = If (c) <
        then_branch = yes () => (float[N, 2] a) { a = Add(x, w) },
        else_branch = no () => (float[N, 2] b) { b = Mul(x, w) }
    >
    y = Add(s, w)
}
"""


def test_a_copy_is_the_same_model_to_the_byte():
    graph = Graph.from_proto(parser.parse_model(MODEL))
    assert graph.copy().to_bytes() == graph.to_bytes()


def test_changing_a_copy_leaves_the_original_as_it_was():
    graph = Graph.from_proto(parser.parse_model(MODEL))
    before, copy = graph.to_bytes(), graph.copy()
    add = copy.nodes[-1]
    add.replace_input_with(1, copy.add_constant(np.float32([5, 6]), "w"))
    copy.metadata["k"] = "v"
    copy.add_outputs(["s"])
    assert graph.to_bytes() == before
    assert copy.to_bytes() != before


def test_copies_share_their_weights():
    graph = Graph.from_proto(parser.parse_model(MODEL))
    ours, theirs = (g.nodes[-1].inputs[1] for g in (graph, graph.copy()))
    assert ours is not theirs
    assert ours is not None
    assert theirs is not None
    assert ours.const_value is theirs.const_value
    assert get_constant(theirs) is not None
