"""How a job runs: threads, batch sizes, and who is informed of its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ptq.core.option_checks import MAX_THREADS, require_callable, require_count

Progress = Callable[[str, int | None], Callable[[], None]]
"""Called with a stage and its number of steps (None if unknown); returns the function to call after each step."""

T_co = TypeVar("T_co", covariant=True)


class SizedIterable(Protocol[T_co]):
    """A collection that can be read more than once and knows its length."""

    def __iter__(self) -> Iterator[T_co]:
        """Read it from the start."""
        ...

    def __len__(self) -> int:
        """The number of items."""
        ...


@dataclass(frozen=True)
class RunOptions:
    """How a job runs; no option changes its result.

    Attributes:
        threads: Threads of ONNX Runtime for one operator; 0 is one a core.
        calibration_batch: Samples that are counted together during calibration.
        evaluation_batch: Samples that run at once when accuracy is measured, if the model takes any number.
        progress: Called with each stage and its steps; None for nobody.
    """

    threads: int = 0
    calibration_batch: int = 4
    evaluation_batch: int = 8
    progress: Progress | None = None

    def __post_init__(self) -> None:
        require_count("threads", self.threads, most=MAX_THREADS)
        require_count("batch", self.calibration_batch, least=1)
        require_count("batch", self.evaluation_batch, least=1)
        if self.progress is not None:
            require_callable("progress", self.progress)

    def start_stage(self, stage: str, steps: int | None) -> Callable[[], None]:
        """Announce a stage of so many steps; call the result after each step."""
        return (lambda: None) if self.progress is None else self.progress(stage, steps)

    def track(self, items: SizedIterable[T_co], stage: str) -> Iterable[T_co]:
        """The items, with progress reported after each."""
        if self.progress is None:
            return items

        def each() -> Iterator[T_co]:
            advance = self.start_stage(stage, len(items))
            for item in items:
                yield item
                advance()

        return each()


DEFAULT_RUN = RunOptions()
