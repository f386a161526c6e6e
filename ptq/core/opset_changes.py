"""What do older opsets say otherwise than the newest?"""

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
"""Inputs that older opsets had as attributes, by position, under the attribute's name."""

SCALAR_INPUTS = frozenset(["max", "min", "value"])
"""Those of them that are a value of the tensor's own type."""
