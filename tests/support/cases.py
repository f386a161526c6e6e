"""Networks that each bring one thing that a quantizer stumbles over, and what becomes of them."""

from __future__ import annotations

from functools import cache

from networks import QuantizedNetwork, quantize_network
from networks_of_ends import EDGE_CASES
from networks_of_layers import LAYER_CASES
from networks_of_rows import OTHER_OP_CASES
from networks_of_sums import SUM_CASES

CASES = {**SUM_CASES, **LAYER_CASES, **EDGE_CASES, **OTHER_OP_CASES}


@cache
def quantized_case(name: str, target: str = "ort") -> QuantizedNetwork:
    """The network of that name, quantized by min/max on Gaussian samples."""
    return quantize_network(CASES[name], target=target)
