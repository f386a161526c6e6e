"""Boxes and scores in one output; float64 on what ONNX Runtime computes is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array, quantize_network

from ptq.model.graph import Graph
from ptq.model.session.session import Session

GIVEN = {
    "w": gaussian_array(4, 3, 3, 3),
    "v": gaussian_array(4, 3, 3, 3, seed=1),
    "k": np.float32(80),
    "e": gaussian_array(2, 8, 1, 1, seed=2),
}
HEAD = "a = Conv(x, w)\nb = Mul(a, k)\nc = Conv(x, v)\ns = Sigmoid(c)\nj = Concat<axis = 1>(b, s)\n"
ENDS = {
    "at once": "y = Identity(j)",
    "moved": "t = Transpose<perm = [0, 2, 3, 1]>(j)\ny = Flatten(t)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_scores_beside_boxes_keep_a_scale_of_their_own(end: str) -> None:
    done = quantize_network(build_network(HEAD + end, **GIVEN))
    why = done.plan.floats["Concat_j"]
    assert "b and s" in why
    assert "1/16" in why
    graphs = (Graph.from_proto(done.model), done.qdq)
    feed = done.feeds[0]
    float_, int8 = (Session(g, threads=1).run(feed)[0].astype(np.float64).ravel() for g in graphs)
    scores = (float_ >= 0) & (float_ <= 1) & (np.abs(float_ - int8) < 1)
    assert scores.sum() >= float_.size / 2
    assert np.abs(float_ - int8)[scores].max() < 0.05


@pytest.mark.parametrize("target", ["litert", "gemmlowp"])
def test_targets_of_integers_alone_join_them_all_the_same(target: str) -> None:
    done = quantize_network(build_network(HEAD + ENDS["at once"], **GIVEN), target=target)
    assert "Concat_j" not in done.plan.floats


def test_parts_alike_and_parts_between_layers_are_joined() -> None:
    alike = HEAD.replace("Mul(a, k)", "Sigmoid(a)") + ENDS["at once"]
    inner = HEAD + "y = Conv(j, e)"
    for nodes in (alike, inner):
        assert "Concat_j" not in quantize_network(build_network(nodes, **GIVEN)).plan.floats
