"""Differences between older opsets and the newest: attributes that became inputs, types that came later."""

from __future__ import annotations

from collections.abc import Mapping

ATTRIBUTES_NOW_INPUTS: Mapping[str, Mapping[int, str]] = {
    "Clip": {1: "min", 2: "max"},
    "Pow": {1: "exponent"},
    "Pad": {1: "pads", 2: "value", 3: "axes"},
    "ReduceMax": {1: "axes"},
    "ReduceMean": {1: "axes"},
    "ReduceMin": {1: "axes"},
    "ReduceSum": {1: "axes"},
    "Reshape": {1: "shape"},
    "Resize": {2: "scales", 3: "sizes"},
    "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "Split": {1: "split"},
    "Squeeze": {1: "axes"},
    "Tile": {1: "repeats"},
    "Unsqueeze": {1: "axes"},
}
"""Attribute names of older opsets by operator, by position of the input that replaced the attribute."""

SCALAR_INPUTS = frozenset(["max", "min", "value"])
"""Those of them that are values of the tensor's own type."""
WIDE_QUANTIZER_OPSET = 21
"""From this opset on, quantizers take integers of 16 bits."""
CLIP_INPUTS_OPSET = 11
"""From this opset on, the bounds of a Clip are inputs; an absent attribute cuts infinity."""
