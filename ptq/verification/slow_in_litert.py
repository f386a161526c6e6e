"""Operators whose 8-bit integers are slow in LiteRT: its fast kernels, XNNPACK, take them in float only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ptq.core.targets import OUTSIDE_XNNPACK
from ptq.core.wording import plural
from ptq.verification.slow_integers import SlowPattern


def find_slow_in_litert(operators: Iterable[str]) -> tuple[SlowPattern, ...]:
    """The integer operators that are slow in LiteRT, as one reason; none if there is none.

    Args:
        operators: The operator of each integer node.
    """
    counts = Counter(op for op in operators if op in OUTSIDE_XNNPACK)
    if not counts:
        return ()
    listed = ", ".join(f"{count} {op}" for op, count in sorted(counts.items()))
    what = f"{plural(counts.total(), 'node')} outside of XNNPACK ({listed}), which takes them in float only"
    advice = "use target litert-xnnpack, which keeps these in float"
    return (SlowPattern("outside of XNNPACK", what, advice),)
