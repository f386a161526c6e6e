"""Texts of the command line → numbers, checked with the texts of ptq itself."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable
from functools import cache

OPTION_NAMES = {
    "form": "--format",
    "correct_bias": "--bias-correction",
    "eval_data": "--eval",
    "optimize": "--optimizations",
}
"""Options whose name in Python is not their name here, with the latter."""


def format_option(name: str) -> str:
    """Name of an option on the command line, from its name in Python."""
    return OPTION_NAMES.get(name, f"--{name.replace('_', '-')}")


def rename_options(text: str) -> str:
    """A message of ptq with the options that it names in backticks as they are called on the command line."""

    def rename(found: re.Match[str]) -> str:
        return format_option(found[1]) if found[1] in _list_python_options() else found[0]

    return re.sub(r"`(\w+)`", rename, text)


@cache
def _list_python_options() -> frozenset[str]:
    """Names of the options of ptq's functions and of its preprocessing."""
    from ptq.api.calibrate import calibrate
    from ptq.api.evaluate import evaluate
    from ptq.api.merge_statistics import merge_statistics
    from ptq.api.quantize import quantize
    from ptq.data.preprocessing import preprocess

    takers = (calibrate, evaluate, quantize, merge_statistics, preprocess.Preprocess)
    return frozenset(name for taker in takers for name in inspect.signature(taker).parameters)


def parse_count(
    option: str, *, least: int = 0, most: int | None = None
) -> Callable[[str | int], int]:
    """Parser of a whole number; it raises UsageError for other texts."""

    def parse(text: str | int) -> int:
        from ptq.core.option_checks import require_count

        try:
            number: object = int(text)
        except ValueError:
            number = text
        return require_count(option, number, least=least, most=most)

    return parse


def parse_keep_samples(text: str) -> str:
    """A number of samples or a size, as it is given; it raises UsageError for other texts."""
    from ptq.observers.keep_limit import parse_keep_limit

    parse_keep_limit(text)
    return text


def parse_scale(text: str | float) -> float:
    """The factor on pixel values, also as the fraction that reports show, 1/255; raise UsageError for other texts."""
    numerator, slash, denominator = str(text).partition("/")
    if slash:
        with contextlib.suppress(ValueError, ZeroDivisionError):
            return parse_number("scale")(float(numerator) / float(denominator))
    return parse_number("scale")(text)


def parse_number(option: str, *, least: float | None = None) -> Callable[[str | float], float]:
    """Parser of a number; it raises UsageError for other texts."""

    def parse(text: str | float) -> float:
        from ptq.core.option_checks import require_number

        try:
            number: object = float(text)
        except ValueError:
            number = text
        return require_number(option, number, least=least)

    return parse
