"""Operators whose 8-bit integers are slow in LiteRT: its fast kernels, XNNPACK, take them in float only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ptq.core.wording import plural
from ptq.verification.slow_integers import SlowPattern

OUTSIDE_XNNPACK = frozenset(
    {"Abs", "AveragePool", "Elu", "Erf", "HardSigmoid", "HardSwish", "Max", "Neg", "PRelu"}
    | {"Softmax", "Softplus", "Sqrt"}
)
"""Operators that split a `.tflite` file in several parts of XNNPACK if they are integers, found with LiteRT 2.3.0. A
HardSwish takes ten times as long as in float. Functions without an operator of LiteRT are tables (GATHER)."""


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
    advice = f"keep these in float (skip), for example {counts.most_common(1)[0][0]}"
    return (SlowPattern("outside of XNNPACK", what, advice),)
