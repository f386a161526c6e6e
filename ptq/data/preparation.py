"""What the preprocessing options of images, audio and text have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol


class Preparation(Protocol):
    """How samples become arrays.

    Attributes:
        SOURCE: The kind of samples: ``images``, ``audio`` or ``text``.
        ORDER: Names of the options, in the order in which they are applied.
    """

    SOURCE: ClassVar[str]
    ORDER: ClassVar[tuple[str, ...]]

    def describe(self) -> dict[str, Any]:
        """Options in the order of application, as plain values for a report; never a path."""
        ...
