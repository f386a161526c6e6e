"""What does a run end with? An exit code and, where it failed, one line on standard error.

0    done
1    the model or the data, or a fault of ptq itself
2    usage
3    the accuracy budget is exceeded
130  interrupted (SIGINT)
143  terminated (SIGTERM)
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import sys
import traceback
import warnings

import typer

from . import signals
from .one_line import one_line

_GC_THRESHOLD = 50_000
_WRITE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Of what has no name: ptq.core.files explains what goes wrong with files."""


def run(app: typer.Typer, arguments: list[str] | None = None) -> int:
    """Run the application and say what went wrong, once; the exit code."""
    try:
        code = _run(app, arguments)
    except KeyboardInterrupt:
        code = signals.INTERRUPTED
    except SystemExit:
        code = signals.TERMINATED
        if signals.signal_exit_code() is None:
            raise
    ended = signals.signal_exit_code()
    code = code if ended is None else ended
    if code == signals.INTERRUPTED:
        typer.echo("interrupted", err=True)
    return code


def _run(app: typer.Typer, arguments: list[str] | None) -> int:
    try:
        returned = app(arguments, prog_name="ptq", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return 1
    except Exception as error:
        if (ended := signals.signal_exit_code()) is not None:  # what became of a signal on its way
            return ended
        code, text = explain(error)
        if isinstance(error, OSError):
            _discard_output()
        if os.environ.get("PTQ_TRACEBACK"):
            traceback.print_exception(error)
        typer.echo(f"error: {one_line(text)}", err=True)
        return code
    return returned if isinstance(returned, int) else 0


def _discard_output() -> None:
    """What standard output has not taken goes nowhere: the flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def explain(error: Exception) -> tuple[int, str]:
    """The exit code and the text for an error."""
    if isinstance(error, typer.TyperException):
        text = error.format_message().strip().removesuffix(".")
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "ptq"
        return error.exit_code, f"{text[:1].lower()}{text[1:]}; see {command} --help"
    if isinstance(error, MemoryError):
        return 1, "not enough memory; use --batch 1, or a machine with more"

    from ptq.core.errors import PtqError

    if isinstance(error, PtqError):
        return error.exit_code, str(error)
    if isinstance(error, OSError) and error.errno in _WRITE_ERRNOS and error.filename is None:
        return 1, f"standard output cannot be written: {error.strerror}; choose another place"
    return 1, (
        f"internal: {type(error).__name__}: {error}; please report it, "
        "with what PTQ_TRACEBACK=1 in the environment shows"
    )


def _open_streams() -> None:
    """Where a standard stream is closed, the next file that is opened would take its place, and what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 # for good


def prepare_process() -> None:
    """Make signals unwind the stack, so that temporary files go, and output one voice, printable."""
    signals.install()
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # files, of a process
    # what libraries warn of and log is no message of ptq; standard error is for errors
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    logging.getLogger().addHandler(logging.NullHandler())
    # of the 300,000 objects that libraries make, hardly any is garbage: looking less often saves 0.1 s
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
