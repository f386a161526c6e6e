"""SIGINT and SIGTERM end the process at any moment, and temporary files are removed.

The handler raises an exception, as Python does for Ctrl-C. Two problems need care:

1. An extension module that is being imported turns the exception into an ImportError. Callers take this for a
   missing module and go on, for example with Python's slow protobuf. So the handler waits for imports.
2. An exception raised while an object is destroyed is lost. So the handler raises again until the stack unwinds.

Cleaning up is never interrupted. Before the work and after it there is nothing to clean up: a signal ends the process
at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143
RETRY_SECONDS = 0.05
MAX_IMPORT_SECONDS = 10.0
"""An import is interrupted after this time."""

_raised: list[BaseException] = []


def end_at_once() -> None:
    """Let SIGTERM and SIGINT end the process where they find it; an ignored SIGINT stays ignored."""
    for alarm in _list_alarm_signals():  # a signal that came during an import may still wait
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(alarm, signal.SIG_DFL)
    _set_handler(_end)


def install_handlers() -> None:
    """Make SIGTERM and SIGINT unwind the stack; an ignored SIGINT stays ignored."""
    _set_handler(_handle_signal)


def _set_handler(handler: Callable[[int, FrameType | None], None]) -> None:
    signal.signal(signal.SIGTERM, handler)
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end, _handle_signal):
        signal.signal(signal.SIGINT, handler)


def _end(number: int, _: FrameType | None) -> None:
    if number == signal.SIGINT:
        with suppress(OSError):
            os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED if number == signal.SIGINT else TERMINATED)


def read_signal_exit_code() -> int | None:
    """Return the exit code if a signal came, and ignore further signals; else None."""
    if not _raised:
        return None
    for number in (signal.SIGINT, signal.SIGTERM, *_list_alarm_signals()):
        signal.signal(number, signal.SIG_IGN)
    return INTERRUPTED if isinstance(_raised[0], KeyboardInterrupt) else TERMINATED


def _handle_signal(number: int, frame: FrameType | None, waited: float = 0.0) -> None:
    if _is_unwinding() or (
        _list_alarm_signals() and waited < MAX_IMPORT_SECONDS and _is_importing(frame)
    ):
        _retry_later(number, waited + RETRY_SECONDS)
        return
    _retry_later(number, 0.0)
    error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(TERMINATED)
    _raised.append(error)
    raise error


def _list_alarm_signals() -> tuple[int, ...]:
    """SIGALRM, on systems that have it."""
    return (signal.SIGALRM,) if hasattr(signal, "setitimer") else ()


def _retry_later(number: int, waited: float) -> None:
    for alarm in _list_alarm_signals():
        signal.signal(alarm, lambda _, frame: _handle_signal(number, frame, waited))
        signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)


def _is_unwinding() -> bool:
    """Whether a raised exception is unwinding the stack, and cleanup code runs on the way."""
    error = sys.exception()
    while error is not None:
        if any(error is raised for raised in _raised):
            return True
        error = error.__context__
    return False


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
