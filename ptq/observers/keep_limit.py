"""How many samples statistics keep: a number of samples, or a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.errors import UsageError
from ptq.core.option_checks import parse_bytes, require_count
from ptq.core.wording import plural

_LEAST_BYTES = 1000
"""A smaller size is no size: its unit was forgotten."""
KeepOption = int | str
"""A number of samples, or a size such as ``100MB``."""


@dataclass(frozen=True)
class KeepLimit:
    """The most samples that statistics keep.

    Attributes:
        samples: Their number; None for any.
        bytes: The bytes of their arrays; None for any.
    """

    samples: int | None = 0
    bytes: int | None = None

    def __bool__(self) -> bool:
        """Whether any sample may be kept."""
        return self.samples != 0 and self.bytes != 0

    def __str__(self) -> str:
        """The limit as messages call it."""
        if self.bytes is not None:
            return f"{self.bytes / 1e6:g}MB of samples"
        return plural(self.samples or 0, "sample")

    def permits(self, samples: int, size: int) -> bool:
        """Whether so many samples of so many bytes are within the limit."""
        return (self.samples is None or samples <= self.samples) and (
            self.bytes is None or size <= self.bytes
        )

    def intersect(self, other: KeepLimit) -> KeepLimit:
        """What both limits permit."""
        return KeepLimit(_lower(self.samples, other.samples), _lower(self.bytes, other.bytes))

    def most_bytes(self, samples: int, largest: int) -> int:
        """The most bytes that are kept of so many samples, of which the largest has so many bytes."""
        count = samples if self.samples is None else min(samples, self.samples)
        return count * largest if self.bytes is None else min(count * largest, self.bytes)


NONE_KEPT = KeepLimit()


def parse_keep_limit(option: KeepOption) -> KeepLimit:
    """The limit that an option asks for.

    Raises:
        UsageError: It is neither a number nor a size.
    """
    if not isinstance(option, str) or option.isdecimal():
        number = int(option) if isinstance(option, str) else option
        return KeepLimit(require_count("keep_samples", number))
    size = parse_bytes(option)
    if size is None or size < _LEAST_BYTES:
        raise UsageError(
            f"keep_samples {option!r} is neither a number nor a size such as 100MB",
            "keep_samples",
        )
    return KeepLimit(None, size)


def _lower(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)
