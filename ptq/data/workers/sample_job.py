"""What runs on samples, in any process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ptq.data.workers.sample_parts import Part

R_co = TypeVar("R_co", covariant=True)


class SampleJob(Protocol[R_co]):
    """What runs on samples; it can be pickled. Open, it runs one part at a time, or several if threads may run it."""

    def open(self) -> Callable[[Part], R_co]:
        """What runs a part; it may load models, and keep what later parts need."""
