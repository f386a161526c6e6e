"""The reason that a plan gives for a node that stays float because of its error."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ptq.rewrite.instrument.error_sources import ErrorSource


def explain_float_nodes(
    sources: Sequence[ErrorSource],
    shares: NDArray[np.float64],
    floats: Collection[str],
    prefix: str,
) -> dict[str, str]:
    """Each node with the largest error that vanishes because of it.

    Args:
        sources: The error sources.
        shares: The error energy of each source.
        floats: The nodes that stay float.
        prefix: What decided it.
    """
    total, kept = max(float(shares.sum()), np.finfo(float).tiny), set(floats)
    gone = [k for k, source in enumerate(sources) if source.float_nodes_needed <= kept]
    reasons: dict[str, str] = {}
    for index in sorted(gone, key=lambda k: (-shares[k], k)):
        reason = prefix + describe_source(sources[index], float(shares[index]) / total)
        for node in sorted(sources[index].float_nodes_needed):
            reasons.setdefault(node, reason)
    return {name: reasons[name] for name in sorted(kept) if name in reasons}


def describe_source(source: ErrorSource, share: float) -> str:
    """What is rounded, and the share of the output error that it causes."""
    cause = (
        f"the rounded constants of {source.node} cause"
        if source.kind == "weights"
        else f"rounding {source.tensor} causes"
    )
    return f"{cause} {100 * share:.0f} % of the output error (estimated)"
