"""How far a job is: its stage, its share of the whole, the rate of steps.

The whole is the runs of the stages that the job expects. A stage that is left out counts as done when a later one
starts. Without expectations the whole is the steps of all stages that have started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptq.core.run_options import ExpectedStage

_HALF = 4
"""Steps after which a stage of unknown length counts as half done."""

_SLOW = 0.1
"""Steps in a second below which the seconds of a step are shown instead."""


@dataclass(frozen=True)
class Snapshot:
    """A job at one moment.

    Attributes:
        stage: Name of the running stage; empty before the first.
        steps: Steps of the stage that are done.
        of: Number of its steps; None if it is unknown.
        rate: Its steps in a second so far; 0 before the first step.
        done: Runs that are done, at most ``total``.
        total: Runs of the whole.
        seconds: Time since the start of the job.
        expected: Whether the stages to come are known; else ``total`` holds only those that have started.
    """

    stage: str
    steps: int
    of: int | None
    rate: float
    done: float
    total: float
    seconds: float
    expected: bool = True

    @property
    def stage_seconds_left(self) -> float | None:
        """Time left in the stage at its rate; None if its number of steps or its rate is unknown."""
        if self.of is None or not self.rate or self.steps >= self.of:
            return None
        return (self.of - self.steps) / self.rate

    @property
    def seconds_left(self) -> float | None:
        """Time left if the rest is as fast as the part that is done; None before any is."""
        return None if not self.done else self.seconds * (self.total - self.done) / self.done


class ProgressState:
    """The progress callback of the verbs of ptq; it informs an observer of each change."""

    def __init__(
        self, observe: Callable[[Snapshot], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start the clock.

        Args:
            observe: Called at each start and step of a stage.
            clock: Time in seconds.
        """
        self._observe, self._clock, self._start = observe, clock, clock()
        self._expected: list[ExpectedStage] = []
        self._next = 0  # first expected stage that may still start
        self._before = self._runs = self._total = 0.0
        self._stage, self._steps, self._stage_start = "", 0, self._start
        self._of: int | None = None

    def expect(self, stages: Sequence[ExpectedStage]) -> None:
        """Take the stages to come as the whole; see `ptq.core.run_options.Progress`."""
        self._expected, self._total = list(stages), float(sum(stage.runs for stage in stages))

    def __call__(self, stage: str, steps: int | None) -> Callable[[], None]:
        """Start a stage; return what reports one step of it."""
        self._before += self._runs
        self._runs = self._find_runs(stage, steps)
        self._stage, self._steps, self._of, self._stage_start = stage, 0, steps, self._clock()
        self._observe(self.snapshot())
        return self._advance

    def _find_runs(self, stage: str, steps: int | None) -> float:
        """The runs of a stage that starts; those of expected stages that it skips count as done."""
        if not self._expected:
            self._total += steps or 0
            return steps or 0
        for index in range(self._next, len(self._expected)):
            if self._expected[index].name == stage:
                self._before = float(sum(s.runs for s in self._expected[:index]))
                self._next = index + 1
                return self._expected[index].runs
        return 0.0

    def _advance(self) -> None:
        self._steps += 1
        self._observe(self.snapshot())

    def finish(self) -> None:
        """End the job: the whole is done."""
        self._before, self._runs = self._total, 0.0
        self._observe(self.snapshot())

    def snapshot(self) -> Snapshot:
        """The job now."""
        now = self._clock()
        share = self._steps / self._of if self._of else self._steps / (self._steps + _HALF)
        spent = now - self._stage_start
        return Snapshot(
            self._stage,
            self._steps,
            self._of,
            self._steps / spent if spent > 0 else 0.0,
            min(self._before + self._runs * min(share, 1.0), self._total),
            self._total,
            now - self._start,
            bool(self._expected),
        )


def describe_steps(snapshot: Snapshot) -> str:
    """The stage with its steps, and their rate until the last: ``calibrating 96/128, 25.1/s``."""
    of = "" if snapshot.of is None else f"/{snapshot.of}"
    text = f"{snapshot.stage} {snapshot.steps}{of}" if snapshot.steps or of else snapshot.stage
    running = snapshot.rate and snapshot.steps != snapshot.of
    if not running:
        return text
    slow = snapshot.rate < _SLOW
    return f"{text}, {f'{1 / snapshot.rate:.0f} s each' if slow else f'{snapshot.rate:.1f}/s'}"
