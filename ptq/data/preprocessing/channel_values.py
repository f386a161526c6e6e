"""Type of an option with one value, or one for each channel: given as a number or a list, read as a tuple."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:

    class ChannelValues:
        """What a type checker sees of such a field of a dataclass."""

        def __get__(self, owner: object, kind: type | None = None) -> tuple[float, ...] | None: ...
        def __set__(self, owner: object, values: float | Iterable[float] | None) -> None: ...

else:
    ChannelValues = tuple[float, ...] | None
