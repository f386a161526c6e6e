"""Networks that each bring one thing that a quantizer stumbles over, and what becomes of them."""

from __future__ import annotations

from functools import cache

from networks import Quantized, quantized
from networks_of_ends import ENDS
from networks_of_layers import LAYERS
from networks_of_rows import ROWS
from networks_of_sums import SUMS

CASES = {**SUMS, **LAYERS, **ENDS, **ROWS}


@cache
def quantized_case(name: str, target: str = "ort") -> Quantized:
    """The network of that name, quantized by min/max on Gaussian samples."""
    return quantized(CASES[name], target=target)
