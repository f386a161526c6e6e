"""A classifier of small images, for code blocks that need any model."""

from __future__ import annotations

import onnx
from networks import build_network, gaussian_array


def build_small_classifier() -> onnx.ModelProto:
    """Two convolutions of images of 3×16×16 pixels, and 16 scores."""
    return build_network(
        "c = Conv<pads=[1,1,1,1]>(input, w, b)\nr = Relu(c)\nd = Conv(r, v, b)\n"
        "g = GlobalAveragePool(d)\ny = Flatten(g)",
        {"input": ("n", 3, 16, 16)},
        w=gaussian_array(16, 3, 3, 3),
        v=gaussian_array(16, 16, 1, 1),
        b=gaussian_array(16),
    )
