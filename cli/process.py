"""Process boundary: exit code, one error line on standard error, standard streams.

0    done
1    problem with the model or the data, a difference that verify found, an error that lint found, an output that
     cannot be written, or internal error
2    wrong usage
3    accuracy budget exceeded, or with --strict not decided; slower than --min-speedup; quantized model larger and
     slower than float
130  interrupted (SIGINT)
143  terminated (SIGTERM)
"""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence

import typer

from ptq.core import lazy_modules

from . import signals
from .github import write_annotations
from .invocation import find_json_place, reset_invocation
from .one_line import to_one_line
from .options.parsers import format_option, rename_options
from .verbosity import reset_verbosity

_ALTERNATIVES = {
    "plan": "plans are JSON texts: compare them with any program for text files",
}
"""What does the work of commands that ptq does not have."""
_GC_THRESHOLD = 500_000
_OWN_PROCESS = threading.Event()
"""Whether this process runs the command line alone."""
_WRITE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of standard output, which has no file name; ptq.core.files explains errors of named files."""


def run(app: typer.Typer, arguments: list[str] | None = None) -> int:
    """Run the application, print one line if it fails, and return the exit code.

    With ``--json`` the error is also written there.
    """
    reset_invocation(arguments)
    reset_verbosity()
    try:
        code = _run(app, arguments)
        if _OWN_PROCESS.is_set() and signals.read_signal_exit_code() is None:
            signals.end_at_once()
    except KeyboardInterrupt:
        code = signals.INTERRUPTED
    except SystemExit:
        code = signals.TERMINATED
        if signals.read_signal_exit_code() is None:
            raise
    signal_code = signals.read_signal_exit_code()
    code = code if signal_code is None else signal_code
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
        # a signal's exception can arrive as another one, for example an ImportError
        if (signal_code := signals.read_signal_exit_code()) is not None:
            return signal_code
        given = sys.argv[1:] if arguments is None else arguments
        code, text = explain_error(error, given)
        text = _keep_output(error) or text
        if isinstance(error, OSError):
            _discard_output()
        if os.environ.get("PTQ_TRACEBACK"):
            traceback.print_exception(error)
        typer.echo(f"error: {to_one_line(text)}{_name_help(error)}", err=True)
        write_annotations("error", [to_one_line(text)])
        if not isinstance(error, OSError):
            document = name_error_kind(error), to_one_line(text), code, _find_command(app, given)
            _write_error_document(given, *document)
        return code
    return returned if isinstance(returned, int) else 0


def _keep_output(error: Exception) -> str:
    """Keep an output that a store refuses; the text of the error that names the file, empty if there is none."""
    from ptq.core.errors import UnwrittenError

    from .outputs import keep_unwritten

    kept = keep_unwritten(error) if isinstance(error, UnwrittenError) else None
    return f"{error}; the output is kept as {kept}" if kept else ""


def _write_error_document(
    arguments: Sequence[str], kind: str, message: str, code: int, command: str
) -> None:
    """Write an error as JSON where ``--json`` names a place; a failure to do so is not reported."""
    place = find_json_place(arguments)
    if place is None:
        return
    from ptq.core.errors import PtqError

    from .documents.write_document import format_error_json
    from .outputs import write_json

    with contextlib.suppress(PtqError, OSError):
        write_json(format_error_json(kind, message, code, command), place)
        sys.stdout.flush()


def name_error_kind(error: Exception) -> str:
    """Name of the kind of an error in JSON documents."""
    from ptq.core import errors

    if isinstance(error, typer.TyperException):
        return "usage"
    if isinstance(error, MemoryError):
        return "memory"
    if not isinstance(error, errors.PtqError):
        return "internal"
    kinds = {
        errors.UsageError: "usage",
        errors.UnsupportedError: "unsupported",
        errors.ModelError: "model",
        errors.DataError: "data",
        errors.PlanError: "plan",
        errors.StatsError: "stats",
        errors.NoGainError: "no_gain",
    }
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), "other")


def _discard_output() -> None:
    """Redirect standard output to the null device, because the flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _get_first_word(arguments: Sequence[str]) -> str:
    """What stands where a command line names its command, for errors that happen before it is read."""
    return next((argument for argument in arguments if not argument.startswith("-")), "")


def _guess_command(arguments: Sequence[str]) -> str:
    first = _get_first_word(arguments)
    return f"ptq {first}" if first.isalpha() else "ptq"


def _find_command(app: typer.Typer, arguments: Sequence[str]) -> str:
    """The name of the command, if there is such a command; else empty."""
    first = _get_first_word(arguments)
    names = (c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands)
    return first if first in names else ""


_MODEL_AND_SAMPLES = ("calibrate", "evaluate", "frontier", "quantize", "sensitivity", "verify")
"""Commands of one model and samples."""


def _name_alternative(text: str, command: str, arguments: Sequence[str]) -> str:
    """The error of what people try in another way, with what does it here; else the text unchanged."""
    if text.startswith(f"No such command '{command}'") and command in _ALTERNATIVES:
        return f"No such command '{command}'; {_ALTERNATIVES[command]}"
    if text.startswith("Got unexpected extra argument") and _has_expanded_pattern(arguments):
        return "More than one path follows an option of samples; put a pattern of files in quotes"
    if text.startswith("Got unexpected extra argument") and command in _MODEL_AND_SAMPLES:
        return f"{text}; samples follow --data, and the numbers of one option are joined by commas"
    return text


def _has_expanded_pattern(arguments: Sequence[str]) -> bool:
    """Whether the shell replaced a pattern of samples by its files: two of one kind follow the option."""
    return any(
        option in ("--data", "--eval")
        and os.path.exists(first)
        and os.path.exists(second)
        and os.path.splitext(first)[1] == os.path.splitext(second)[1]
        for option, first, second in zip(arguments, arguments[1:], arguments[2:], strict=False)
    )


def _name_help(error: Exception) -> str:
    """The command that explains more, in brackets; empty if no page does."""
    from ptq.core.topics import Topic, name_command

    topic: Topic | None = getattr(error, "topic", None)
    if isinstance(error, MemoryError):
        topic = "out-of-memory-or-too-slow-to-calibrate"
    return "" if topic is None else f" ({name_command(topic)})"


def explain_error(error: Exception, arguments: Sequence[str] = ()) -> tuple[int, str]:
    """Return exit code and text for an error of a command line."""
    if isinstance(error, typer.TyperException):
        text = error.format_message().strip().removesuffix(".")
        text = _name_alternative(text, _get_first_word(arguments), arguments)
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else _guess_command(arguments)
        return error.exit_code, f"{text[:1].lower()}{text[1:]}; see {command} --help"
    if isinstance(error, MemoryError):
        return 1, "not enough memory; use --batch 1 or a machine with more memory"

    from ptq.core.errors import PtqError, UsageError

    if isinstance(error, UsageError) and error.option:
        rest = str(error).removeprefix(error.option)
        return error.exit_code, format_option(error.option) + rename_options(rest)
    if isinstance(error, PtqError):
        return error.exit_code, rename_options(str(error))
    if isinstance(error, OSError) and error.errno in _WRITE_ERRNOS and error.filename is None:
        return 1, f"cannot write to standard output: {error.strerror}; redirect it elsewhere"
    return 1, (
        f"internal: {type(error).__name__}: {error}; "
        "please report it with the traceback that PTQ_TRACEBACK=1 in the environment prints"
    )


def _open_streams() -> None:
    """Open closed standard streams on the null device, so that no opened file takes their number and their output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 # stays open


def prepare_process() -> None:
    """Set up signals, streams, warnings, garbage collection and late imports of the process.

    Signals unwind the stack, so that temporary files are removed.
    """
    signals.install_handlers()
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # a text file in a process
    # standard error is for errors of ptq, not for warnings and logs of libraries
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    logging.getLogger().addHandler(logging.NullHandler())
    # libraries create 300,000 objects and hardly any garbage, and large jobs collect after their stages
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    lazy_modules.install_lazy_modules()
    _OWN_PROCESS.set()


def prepare_long_job() -> None:
    """Set up memory for a job that runs models often, once the libraries are loaded; only in a process of ptq."""
    if _OWN_PROCESS.is_set():
        from ptq.core.memory import keep_freed_blocks

        keep_freed_blocks()
