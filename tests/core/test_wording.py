"""Reasons for float nodes are grouped, one line for each reason; decibels have a sign."""

from __future__ import annotations

import math

import pytest

from ptq.core.wording import describe_islands, explain_floats, format_decibels
from ptq.optimization.mixed_precision.knee.saved_decisions import SavedDecisions


def test_reasons_that_differ_in_a_tensor_are_one_line_with_the_largest_as_examples() -> None:
    error = "error: rounding {} causes {} % of the output error (estimated)".format
    weights = "error: the rounded constants of {} cause {} % of the output error (estimated)".format
    lines = [
        *explain_floats(
            [
                ("Conv", error("small", 1)),
                ("Conv", error("big", 31)),
                ("Clip", error("big", 31)),
                ("Conv", weights("a layer", 20)),
                ("Mul", error("none", 0)),
                ("Slice", "p.1 is int64, not float32"),
                ("Concat", "p.2 is int64, not float32"),
                ("Cast", "p.3 is bool, not float32"),
                ("Relu", "no kernel"),
            ]
        )
    ]
    assert lines == [
        "float: 3 Conv, 1 Clip, 1 Mul: error: in integers each causes a share of the output error, estimated "
        "(big 31 %, a layer 20 %, small 1 % and 1 more)",
        "float: 1 Slice, 1 Concat: its values are int64, not float32 (p.1, p.2)",
        "float: 1 Cast: its values are bool, not float32 (p.3)",
        "float: 1 Relu: no kernel",
    ]


def test_decisions_that_float_nodes_save_are_said_once() -> None:
    saved = f"; {SavedDecisions(96, 109.0, 13.0, 5.0, (0.0, 0.1)).describe()}"
    why = "error: rounding {} causes {} % of the output error (estimated)" + saved
    (line,) = explain_floats([("Conv", why.format("a", 3)), ("Mul", why.format("b", 9))])
    assert line.endswith(f"output error, estimated{saved} (b 9 %, a 3 %)")


def test_the_sentences_are_those_of_the_partition_and_the_default_rule() -> None:
    from ptq.optimization.mixed_precision.attribution import float_reasons

    class Source:
        kind, node, tensor = "weights", "n", "t"

    for kind in ("weights", "activation"):
        Source.kind = kind
        said = "error: " + float_reasons.describe_source(Source, 0.5)  # type: ignore[arg-type]
        assert next(explain_floats([("Conv", said)])).endswith(" 50 %)")


@pytest.mark.parametrize(
    ("decibels", "text"), [(math.inf, "∞"), (-math.inf, "−∞"), (39.84, "39.8")]
)
def test_infinite_decibels_have_a_sign(decibels: float, text: str) -> None:
    assert format_decibels(decibels) == text


def test_long_float_islands_name_their_first_operators() -> None:
    islands = {"a": ("Erf", "Mul"), "b": ("Shape",) * 300, "c": ("Shape",) * 300}
    (line,) = describe_islands(islands)
    names = "+".join(["Shape"] * 8)
    assert line.endswith(f"both engines): 2 {names}+… (300 nodes), 1 Erf+Mul")
