"""Texts of the command line → numbers, checked with the texts of ptq itself."""

from __future__ import annotations

from collections.abc import Callable

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
