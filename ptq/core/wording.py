"""Numbers with nouns and units, and counts of operators, in sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence


def plural(number: int, thing: str) -> str:
    """Return the number and the noun: ``1 Pad node``, ``3 Pad nodes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_size(count: int) -> str:
    """Return a number of bytes in decimal units: ``454.0 kB``."""
    if count < 1_000_000:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:.1f} MB"


OPEN_BATCH = "export it with a batch of 1 or an open one (with ptq: leave `static_batch` out)"
"""Advice where a fixed batch is in the way."""
ABOUT_AS_LARGE = "about as large"
"""A ratio of sizes that two digits do not show."""


def describe_size_ratio(before: int, after: int) -> str:
    """Return how a size changed, from a number of bytes to another: ``2.13 times smaller``, ``about as large``."""
    ratio, word = (before / after, "smaller") if after <= before else (after / before, "larger")
    return ABOUT_AS_LARGE if f"{ratio:.2f}" == "1.00" else f"{ratio:.2f} times {word}"


def format_change(points: float, digits: int = 2) -> str:
    """Return a difference with its sign, ``+0.40`` or ``−0.40``; zero has none: ``0.00``."""
    size = f"{abs(points):.{digits}f}"
    if float(size) == 0:
        return size
    return f"{'−' if points < 0 else '+'}{size}"


def format_decibels(value: float) -> str:
    """Return a number of dB, ``39.8``; ∞ without error, −∞ where the error is infinite or nothing is signal."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.1f}"


def format_tally(names: Iterable[str]) -> str:
    """``3 Conv, 1 Add``: each name with its count, the most frequent first."""
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())


_CASES = (
    (
        re.compile(r"(?P<case>.+) is (?P<kind>\w+), not float32"),
        "its values are {kind}, not float32",
    ),
    (
        re.compile(
            r"error: (?:the rounded constants of|rounding) (?P<case>.+) causes? (?P<share>\d+) % of the output error "
            r"\(estimated\)(?P<saved>|; such nodes save \d+ of \d+ decisions)"
        ),
        "error: in integers each causes a share of the output error, estimated{saved}",
    ),
)
"""Reasons that name a tensor or node, and the reason that all of them share."""


def explain_floats(nodes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The operators that stay in float for each reason, from the operator and the reason of each node.

    Reasons that differ only in the tensor that they name are one line, with the largest as examples.
    """
    reasons: dict[str, list[str]] = {}
    cases: dict[str, dict[str, int]] = {}
    for op, why in nodes:
        shared, case, share = _generalize(why)
        reasons.setdefault(shared, []).append(op)
        cases.setdefault(shared, {})[case] = share
    for shared, ops in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield f"float: {format_tally(ops)}: {shared}{_join_cases(cases[shared])}"


def _generalize(why: str) -> tuple[str, str, int]:
    """What a reason shares with others, the tensor that it names, and its share in percent; empty and 0 without."""
    for pattern, shared in _CASES:
        if found := pattern.fullmatch(why):
            groups = found.groupdict()
            return shared.format_map(groups), groups["case"], int(groups.get("share", 0))
    return why, "", 0


def _join_cases(cases: Mapping[str, int]) -> str:
    """`` (a 31 %, b 20 %, c 3 % and 9 more)``: up to three, the largest first."""
    named = sorted((name for name in cases if name), key=lambda name: -cases[name])
    if not named:
        return ""
    shown = [f"{name} {cases[name]} %" if cases[name] else name for name in named[:3]]
    rest = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return f" ({', '.join(shown)}{rest})"


_MOST_OPERATORS = 8
"""Operators of a float island that are named."""


def _join_operators(ops: Sequence[str]) -> str:
    """The operators of an island; only the first ones where there are many."""
    rest = f"+… ({len(ops)} nodes)" if len(ops) > _MOST_OPERATORS else ""
    return "+".join(ops[:_MOST_OPERATORS]) + rest


def describe_islands(
    islands: Mapping[str, tuple[str, ...]], *, end_to_end: bool = True
) -> Iterator[str]:
    """Float islands: node groups that the integer executor runs in ONNX Runtime.

    Args:
        islands: The operators of each, by name.
        end_to_end: Whether each engine computes its own. ONNX Runtime fuses a whole model otherwise than its parts,
            so last bits differ, and a value at a rounding tie becomes another integer. Otherwise both use one result.
    """
    if islands:
        kinds = format_tally(map(_join_operators, islands.values()))
        relation = "last bits may differ between" if end_to_end else "same result in"
        yield f"float islands ({relation} both engines): {kinds}"
