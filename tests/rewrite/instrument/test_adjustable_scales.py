"""A model whose scales are inputs; the same model with these scales written into it is the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from networks import build_network, gaussian_array, quantize_network

from ptq.model.session.session import Session
from ptq.rewrite.instrument.adjustable_scales import make_scales_inputs

SAME = "<pads = [1, 1, 1, 1]>"
BODIES = {
    "nothing": "h = Identity(c)",
    "relu": "h = Relu(c)",
    "clip": "h = Clip(c, least, most)",
    "sum": "h = Add(c, x8)",
    "hard swish": "h = HardSwish(c)",
    "hard sigmoid": "h = HardSigmoid(c)",
    "steep hard sigmoid": "h = HardSigmoid<alpha = 1.5, beta = 0.3>(c)",
    "squeeze and excite": "g = GlobalAveragePool(c)\ns = HardSigmoid(g)\nh = Mul(c, s)",
    "sigmoid": "s = Sigmoid(c)\nh = Mul(c, s)",
    "prelu": "h = PRelu(c, slope)",
    "pool": "h = MaxPool<kernel_shape = [2, 2]>(c)",
}
GIVEN = {
    "w": gaussian_array(8, 3, 3, 3),
    "b": gaussian_array(8, seed=1),
    "v": gaussian_array(4, 8, 3, 3, seed=2),
    "x8": gaussian_array(1, 8, 8, 8, seed=3),
    "slope": np.full((8, 1, 1), 0.25, np.float32),
    "least": np.float32(-1.0),
    "most": np.float32(4.0),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_turned_scale_is_what_it_would_be_written_into_the_model(body: str) -> None:
    done = quantize_network(
        build_network(f"c = Conv{SAME}(x, w, b)\n{body}\ny = Conv{SAME}(h, v)", **GIVEN)
    )
    coarse = {
        name: params
        if name in ("x8", "y")  # a constant and a graph output keep theirs
        else replace(params, scale=params.scale * np.float32(1.5))
        for name, params in done.plan.tensors.items()
    }
    coarser = replace(done.plan, tensors=coarse)
    turned, written = (
        make_scales_inputs(done.prepared, p, coarse, ()) for p in (done.plan, coarser)
    )
    feed = done.feeds[0]
    found, expected = (
        Session.for_range_search(made.graph, threads=1).run({**feed, **made.feed(params)})
        for made, params in ((turned, coarse), (written, coarser.tensors))
    )
    np.testing.assert_array_equal(found[0], expected[0])
