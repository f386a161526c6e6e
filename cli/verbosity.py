"""How much the running command prints: ``-q`` nothing but errors, ``-v`` the log in place of progress bars."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


class ErrorStreamHandler(logging.StreamHandler[Any]):
    """Handler of ``-v``, which `reset_verbosity` removes."""


def is_quiet() -> bool:
    """Return whether ``-q`` is set: no report, no notes, no progress bars."""
    return QUIET.get()


def is_verbose() -> bool:
    """Return whether ``-v`` is set: lines of the log take the place of progress bars."""
    return any(isinstance(h, ErrorStreamHandler) for h in logging.getLogger("ptq").handlers)


def reset_verbosity() -> None:
    """Forget the options of the command that ran before in this process."""
    QUIET.set(False)
    logger = logging.getLogger("ptq")
    for handler in [h for h in logger.handlers if isinstance(h, ErrorStreamHandler)]:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
