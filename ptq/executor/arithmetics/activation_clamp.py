"""Which of the output's integers do the bounds of a Relu or Clip leave?

Those from Zo + round(lo / So) to Zo + round(hi / So), ties away from zero.
"""

from __future__ import annotations

from dataclasses import replace

from ptq.executor.arithmetics.litert_elementwise import activation_bounds
from ptq.executor.arithmetics.node_site import Site, output_bounds, output_qparams


def with_clamp(site: Site) -> Site:
    """The site of a Relu or Clip with its bounds as the clamp; what remains is a requantization."""
    relu = site.op == "Relu"
    least = 0.0 if relu else site.attrs.get("min")
    most = None if relu else site.attrs.get("max")
    low, high = activation_bounds(output_qparams(site), least, most)
    lo, hi = output_bounds(site)
    return replace(site, clamp=(max(low, lo), min(high, hi)))
