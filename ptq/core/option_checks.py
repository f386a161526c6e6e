"""Checks of option values, for Python and the command line alike.

Each error is one line: the option, the value given, and what is accepted. The command line replaces the option's
name by its own.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np

from ptq.core.errors import UnknownOptionError, UsageError

MAX_THREADS = 1024
MAX_BATCH = 2**31 - 1
"""Dimensions of a `.tflite` file are int32."""
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(i?)B?", re.IGNORECASE)

P = ParamSpec("P")
T = TypeVar("T")


def refuse_unknown_options(verb: Callable[P, T]) -> Callable[P, T]:
    """Make a function refuse a keyword that it does not have, and name the most similar one.

    The function raises `UnknownOptionError` then, which is a TypeError too.
    """
    known = tuple(name for name in inspect.signature(verb).parameters if name != "self")

    @functools.wraps(verb)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                similar = find_similar(name, known)
                hint = f"did you mean {similar!r}?" if similar else f"known: {', '.join(known)}"
                raise UnknownOptionError(f"unknown option {name!r}; {hint}")
        return verb(*args, **kwargs)

    return checked


def refuse_unknown_fields(kind: type[T]) -> type[T]:
    """Make a dataclass of options refuse unknown keywords as `refuse_unknown_options` does."""
    kind.__init__ = refuse_unknown_options(kind.__init__)  # type: ignore[method-assign] # the one of the class itself
    return kind


def require_choice(option: str, value: object, allowed: Collection[str]) -> None:
    """Require one of some names.

    Raises:
        UsageError: The value is another one; the text lists the names, and the most similar one.
    """
    if isinstance(value, str) and value in allowed:
        return
    similar = find_similar(value, allowed) if isinstance(value, str) else None
    hint = f" (did you mean {similar}?)" if similar else ""
    raise UsageError(
        f"{option} {value!r} is unknown; choose one of {', '.join(allowed)}{hint}", option
    )


def find_similar(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar, in any case of its letters; None if none is."""
    by_letters = {one.lower(): one for one in sorted(known, reverse=True)}
    found = get_close_matches(name.lower(), by_letters, 1)
    return by_letters[found[0]] if found else None


def require_count(option: str, value: object, *, least: int = 0, most: int | None = None) -> int:
    """Require a whole number in a range, and return it as an int.

    Raises:
        UsageError: The value is no whole number, or outside the range.
    """
    accepted = f"a whole number of at least {least}"
    if most is not None:
        accepted = f"a whole number from {least} to {most}"
    if isinstance(value, (bool, np.bool_)):
        _refuse(option, value, accepted)
    try:
        number = operator.index(value)  # type: ignore[arg-type] # what has no index raises TypeError
    except TypeError:
        _refuse(option, value, accepted)
    if number < least or (most is not None and number > most):
        _refuse(option, value, accepted)
    return number


def require_shard(value: object) -> tuple[int, int]:
    """Require the number of a shard, from 0, and their count, and return both.

    Raises:
        UsageError: The value is no pair of whole numbers, or there is no such shard.
    """
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise UsageError(f"shard {value!r} is not (k, n)", "shard")
    index, count = (require_count("shard", number) for number in value)
    if not index < count:
        raise UsageError(f"shard {index} of {count} does not exist; count from 0")
    return index, count


def require_size(option: str, value: object) -> tuple[int, int]:
    """Require a height and a width of at least 1, and return both.

    Raises:
        UsageError: The value is no pair of whole numbers, or one is too small.
    """
    numbers = list_values(value)
    if numbers is None or len(numbers) != 2:
        raise UsageError(f"{option} {value!r} is not a height and a width", option)
    height, width = (require_count(option, number, least=1) for number in numbers)
    return height, width


def list_values(value: object) -> tuple[Any, ...] | None:
    """The values of an option that may have several; None for a single value or a text."""
    if isinstance(value, str):
        return None
    try:
        return tuple(value)  # type: ignore[arg-type] # what cannot be iterated raises TypeError
    except TypeError:  # an array without axes has __iter__ too
        return None


def require_number(option: str, value: object, *, least: float | None = None) -> float:
    """Require a finite number, and return it as a float.

    Raises:
        UsageError: The value is no finite number, or too small.
    """
    accepted = "a finite number" if least is None else f"a finite number of at least {least:g}"
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real:
        _refuse(option, value, accepted)
    number = float(value)  # type: ignore[arg-type] # it is a real number
    if not math.isfinite(number) or (least is not None and number < least):
        _refuse(option, value, accepted)
    return number


def require_flag(option: str, value: object) -> bool:
    """Require True or False, and return it as a bool.

    Raises:
        UsageError: The value is something else.
    """
    if not isinstance(value, (bool, np.bool_)):
        _refuse(option, value, "True or False")
    return bool(value)


def require_names(option: str, value: object) -> tuple[str, ...]:
    """Require names, and return them as a tuple; a single string is one name.

    Raises:
        UsageError: The value is no collection of strings.
    """
    if isinstance(value, str):
        return (value,)
    names = list_values(value)
    if names is None or not all(isinstance(name, str) for name in names):
        _refuse(option, value, "a name or a collection of names")
    return names


def require_path(option: str, value: object, otherwise: str = "") -> None:
    """Require a path.

    Args:
        option: Name of the option.
        value: The value.
        otherwise: What else is accepted, for the text: ``a Plan``.

    Raises:
        UsageError: The value is no path, or one that no file can have.
    """
    if not isinstance(value, (str, os.PathLike)):
        accepted = f"a path or {otherwise}" if otherwise else "a path"
        raise UsageError(f"{option} of type {type(value).__name__} is not {accepted}", option)
    text = os.fspath(value)
    if not isinstance(text, str):
        raise UsageError(
            f"{option} of type {type(value).__name__} is a path of {type(text).__name__}; give one of text",
            option,
        )
    if "\0" in text:
        raise UsageError(f"{option} {text!r} has a null character; give the path of a file", option)


def require_callable(option: str, value: object) -> None:
    """Require a function or another callable.

    Raises:
        UsageError: The value cannot be called.
    """
    if not callable(value):
        raise UsageError(f"{option} of type {type(value).__name__} is not a callable", option)


def _refuse(option: str, value: object, accepted: str) -> NoReturn:
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    raise UsageError(f"{option} {text} is not {accepted}", option)


def parse_bytes(text: str) -> int | None:
    """Number of bytes of a text as ``20GB`` or ``512 MiB``; None for any other text."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _UNITS[unit.upper()])
