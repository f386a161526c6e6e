"""Weights and beginnings that the test networks share."""

from __future__ import annotations

from typing import Any

import onnx
from networks import build_network, gaussian_array

W = gaussian_array(8, 3, 3, 3, seed=1, scale=0.3)
V = gaussian_array(8, 8, 3, 3, seed=2, scale=0.15)
B = gaussian_array(8, seed=3, scale=0.3)
CONV = "c = Conv<pads=[1,1,1,1]>(x, w, b)\n"
WB = {"w": W, "b": B}
SAME = "<pads=[1,1,1,1]>"
ROW = {"x": (2, 16)}
SEQUENCE = {"x": (1, 3, 20)}


def conv_network(nodes: str, **more: Any) -> onnx.ModelProto:
    """A 3×3 convolution to c, and then these nodes."""
    return build_network(CONV + nodes, **{**WB, **more})
