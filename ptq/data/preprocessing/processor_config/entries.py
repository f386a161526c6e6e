"""Values of a configuration, checked one by one; each error names the key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ptq.core.errors import UsageError

Options = dict[str, Any]
"""Arguments of `ptq.data.Preprocess` by name."""


class Entries:
    """A configuration by key, with the name that errors give it."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """``where`` is the file or the kind of the configuration."""
        self._values = values
        self._where = where

    def get(self, key: str) -> Any:
        """The value of a key; None if the key is absent."""
        return self._values.get(key)

    def require_one(self, flag: str, value: str) -> None:
        """Refuse a step of which neither the flag nor the value is given: the processor's class would choose.

        Raises:
            UsageError: Both keys are absent.
        """
        if flag not in self._values and value not in self._values:
            either = "" if flag == value else f", and so is {value}"
            raise UsageError(
                f"{self._where}: {flag} is missing{either}; write it, as save_pretrained does, or give the "
                "preprocessing options yourself"
            )

    def read_flag(self, key: str, default: bool) -> bool:
        """Whether a step is switched on; a key that is null switches it off."""
        value = self._values.get(key, default)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.refuse(key, "is not true or false")

    def read_number(self, key: str, default: float) -> float:
        """A finite number greater than 0."""
        value = self._values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(key, "is not a number")
        if not (math.isfinite(value) and value > 0):
            raise self.refuse(key, "is not a finite number greater than 0")
        return float(value)

    def read_channels(self, key: str) -> tuple[float, ...] | None:
        """One number, or one for each channel; None if the key is absent."""
        value = self._values.get(key)
        if value is None:
            return None
        values = value if isinstance(value, (list, tuple)) else [value]
        if not values or any(
            isinstance(v, bool) or not isinstance(v, (int, float)) for v in values
        ):
            raise self.refuse(key, "is not a number for each channel")
        return tuple(float(v) for v in values)

    def refuse_unknown(self, known: frozenset[str]) -> None:
        """Refuse a key that may change pixels; a key that is false or null changes nothing.

        Raises:
            UsageError: There is such a key.
        """
        for key in sorted(set(self._values) - known):
            if self._values[key] not in (None, False):
                raise self.refuse(key, "may change pixels, and ptq does not know the step")

    def refuse(self, key: str, why: str) -> UsageError:
        """The error that names a key, its value and the remedy."""
        shown = " ".join(repr(self._values.get(key)).split())[:60]
        return UsageError(
            f"{self._where}: {key} = {shown} {why}; give the preprocessing options yourself, "
            "or process the images in Python"
        )
