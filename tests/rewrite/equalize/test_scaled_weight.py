"""Scaled weights, computed in blocks; the oracle is the formula on the whole weight."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network

from ptq.model.graph import Graph
from ptq.rewrite.equalize.scale_channels import _scale_weight

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("text", "shape", "inputs", "axes"),
    [
        ("y = Conv(x, w)", (1, 6, 5, 5), (8, 6, 3, 3), (0, 1)),
        ("y = Conv<group=3>(x, w)", (1, 6, 5, 5), (9, 2, 3, 3), None),
        ("y = Conv<group=6>(x, w)", (1, 6, 5, 5), (6, 1, 3, 3), None),
        ("y = Gemm(x, w)", (1, 12), (12, 10), (1, 0)),
        ("y = Gemm<transB=1>(x, w)", (1, 12), (10, 12), (0, 1)),
    ],
)
@pytest.mark.parametrize("block", [1, 40, 2**16])
def test_blocks_give_the_bits_of_the_whole_weight(monkeypatch, text, shape, inputs, axes, block):
    monkeypatch.setattr("ptq.rewrite.equalize.scale_channels._BLOCK_VALUES", block)
    weight = RANDOM.normal(size=inputs).astype(np.float32)
    graph = Graph.from_proto(build_network(text, {"x": shape}, w=weight))
    (node,) = graph.nodes
    outputs = inputs[axes[0]] if axes else inputs[0]
    written, read = RANDOM.uniform(0.1, 9, outputs), RANDOM.uniform(0.1, 9, shape[1])
    exact = weight.astype(np.float64)
    if axes:
        exact = np.moveaxis(exact, axes, (0, 1))
        rest = (1,) * (exact.ndim - 2)
        exact = exact * written.reshape(-1, 1, *rest) / read.reshape(1, -1, *rest)
        exact = np.moveaxis(exact, (0, 1), axes)
    else:  # output channel o of a grouped Conv reads the channels of its group
        for channel, kernel in enumerate(exact):
            group = channel // (outputs * inputs[1] // shape[1])
            of_group = read[group * inputs[1] : (group + 1) * inputs[1]]
            kernel[...] = kernel * written[channel] / of_group[:, None, None]
    tensor = node.inputs[1].const_value
    np.testing.assert_array_equal(
        _scale_weight(node, tensor, written, read), exact.astype(np.float32)
    )
    plain = _scale_weight(node, tensor, None, None)
    np.testing.assert_array_equal(plain, weight)
