"""Progress of a stage, reported to the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ptq.data import Sample, Samples

Progress = Callable[[str, int | None], Callable[[], None]]
"""Told of a stage and its number of steps, None where nobody knows it yet, it gives what to call after each."""


def start_progress(stage: str, steps: int | None, progress: Progress | None) -> Callable[[], None]:
    """What to call after each step of a stage, whether or not anybody listens."""
    return (lambda: None) if progress is None else progress(stage, steps)


def with_progress(samples: Samples, stage: str, progress: Progress | None) -> Iterable[Sample]:
    """The samples, with progress reported after each."""
    if progress is None:
        return samples

    def each() -> Iterator[Sample]:
        advance = progress(stage, len(samples))
        for sample in samples:
            yield sample
            advance()

    return each()
