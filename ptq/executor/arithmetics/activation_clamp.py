"""Relu and Clip as bounds of a requantization.

The bounds lo and hi become the integers Zo + round(lo / So) and Zo + round(hi / So), ties away from zero.
"""

from __future__ import annotations

from dataclasses import replace

from ptq.executor.arithmetics.litert_elementwise import compute_activation_bounds
from ptq.executor.arithmetics.node_site import Site, get_output_bounds, get_output_qparams


def with_clamp(site: Site) -> Site:
    """Return the site of a Relu or Clip with its bounds as ``clamp``; the rest of its work is a requantization."""
    relu = site.op == "Relu"
    least = 0.0 if relu else site.attrs.get("min")
    most = None if relu else site.attrs.get("max")
    low, high = compute_activation_bounds(get_output_qparams(site), least, most)
    lo, hi = get_output_bounds(site)
    return replace(site, clamp=(max(low, lo), min(high, hi)))
