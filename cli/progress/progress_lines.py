"""Progress of a long job in lines, where standard error is no terminal: one a stage, and a heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .progress_state import Snapshot, describe_steps

QUIET_SECONDS = 30.0
"""Time without a line before a heartbeat. A job that ends earlier writes nothing."""


class ProgressLines:
    """Writes the stages of a job that takes longer than 30 s, and a heartbeat after 30 s without a line.

    The lines of stages that start earlier wait until then.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        """Begin without a line; ``write`` gets each line."""
        self._write, self._lock = write, threading.Lock()
        self._stage, self._waiting = "", list[str]()
        self._last = 0.0  # seconds of the job at the last line
        self._long = False

    def observe(self, snapshot: Snapshot) -> None:
        """Take note of a start or a step of a stage, or of time that passes."""
        with self._lock:
            if snapshot.stage != self._stage:
                self._stage = snapshot.stage
                self._waiting.append(f"{_format_time(snapshot.seconds)} {snapshot.stage}")
            if snapshot.seconds - self._last >= QUIET_SECONDS:
                self._long = True
                self._waiting.append(_format_heartbeat(snapshot))
            if self._long and self._waiting:
                for line in self._waiting:
                    self._write(line)
                self._waiting.clear()
                self._last = snapshot.seconds


def _format_heartbeat(snapshot: Snapshot) -> str:
    """``01:30 calibrating 96/128, 25.1/s; 42 %, about 02:04 left``."""
    line = f"{_format_time(snapshot.seconds)} {describe_steps(snapshot) or 'preparing'}"
    if not snapshot.expected:
        left = snapshot.stage_seconds_left
        return line if left is None else f"{line}; about {_format_time(left)} left in this stage"
    left = snapshot.seconds_left
    if left is None:
        return line
    share = 100 * snapshot.done / snapshot.total
    return f"{line}; {share:.0f} %, about {_format_time(left)} left"


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
