"""Parts that threads of this process run, while the processes that would take them wait."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ptq.data.workers.sample_parts import Part, Parts
from ptq.kernels.thread_pool import get_thread_count, map_ahead


def run_on_threads(
    opened: Callable[[Part], Any], parts: Parts, most: int
) -> Generator[tuple[Part, Any], None, None]:
    """Each part with its result and what reading has shown, in order; up to ``most`` run at once."""
    each, threads = iter(parts.take, None), min(most, get_thread_count())
    yield from map_ahead(lambda part: (part, part.run(opened)), each, threads)
