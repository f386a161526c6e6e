"""How does a signal end the process at any moment, with its temporary files taken away?

It raises an exception, as Ctrl-C does by itself in Python. Two things may come of that which nobody wants. An
extension module that is being imported makes an ImportError of it, which others take for a module that is missing:
the run goes on, with Python's slow protobuf for one. And what is raised while an object is destroyed is lost. So
imports are waited for, and what was raised is raised again until the stack unwinds; cleaning up is never disturbed.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143
STEP, PATIENCE = 0.05, 10.0
"""Seconds from one look to the next, and after which an import is cut off."""

_raised: list[BaseException] = []


def install() -> None:
    """From here on SIGTERM and SIGINT unwind the stack; a SIGINT that is ignored stays so."""
    signal.signal(signal.SIGTERM, _handle_signal)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle_signal)


def signal_exit_code() -> int | None:
    """The exit code where a signal came; nothing is raised from here on."""
    if not _raised:
        return None
    for number in (signal.SIGINT, signal.SIGTERM, *_alarm_signals()):
        signal.signal(number, signal.SIG_IGN)
    return INTERRUPTED if isinstance(_raised[0], KeyboardInterrupt) else TERMINATED


def _handle_signal(number: int, frame: FrameType | None, waited: float = 0.0) -> None:
    if _is_unwinding() or (_alarm_signals() and waited < PATIENCE and _is_importing(frame)):
        _retry_later(number, waited + STEP)
        return
    _retry_later(number, 0.0)
    error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(TERMINATED)
    _raised.append(error)
    raise error


def _alarm_signals() -> tuple[int, ...]:
    """The signal of the clock, where there is one."""
    return (signal.SIGALRM,) if hasattr(signal, "setitimer") else ()


def _retry_later(number: int, waited: float) -> None:
    for alarm in _alarm_signals():
        signal.signal(alarm, lambda _, frame: _handle_signal(number, frame, waited))
        signal.setitimer(signal.ITIMER_REAL, STEP)


def _is_unwinding() -> bool:
    """Whether the stack is being left for what was raised, and something is cleaned up on the way."""
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
