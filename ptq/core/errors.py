"""Errors that ptq raises on purpose. Every message says what is wrong, where, and what to do."""

import re
import typing

from ptq.core.topics import Topic


class PtqError(Exception):
    """Base class of the errors that ptq raises on purpose; the message is one line for the user.

    A message names options of Python in backticks: the command line writes its own names there.

    Attributes:
        exit_code: Exit code of the command line.
        topic: Section of docs/troubleshooting.md that helps; None for none.
    """

    exit_code = 1
    topic: Topic | None = None


class UsageError(PtqError):
    """An invalid option or argument.

    Attributes:
        option: Name of the option in Python, if the message begins with it; else empty.
    """

    exit_code = 2

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


class UnknownOptionError(UsageError, TypeError):
    """A keyword that a function does not have; a TypeError too, as Python raises it."""


class ModelError(PtqError):
    """A model that cannot be read, is invalid, or is not supported."""


class UnsupportedError(ModelError):
    """A node that the arithmetic or the output form cannot express."""


class DataError(PtqError):
    """Samples that are missing, unreadable, or do not fit the model."""

    topic: Topic | None = "refused-data"


class PlanError(PtqError):
    """A quantization plan that does not fit the graph."""

    topic: Topic | None = "refused-data"


class StatsError(PtqError):
    """Calibration statistics that are damaged or belong to another graph."""

    topic: Topic | None = "refused-data"


class Cancelled(PtqError):  # noqa: N818 # what the caller wanted is no error
    """A job that the caller stopped: its progress callback returned False or raised an exception (the cause)."""

    exit_code = 130


class BudgetError(PtqError):
    """An accuracy budget that is exceeded, or that the samples cannot decide, where it must be shown to hold.

    Attributes:
        result: What was made nevertheless: the `ptq.Result` of ``ptq.quantize``; None elsewhere.
    """

    exit_code = 3
    result: typing.Any = None


class UnwrittenError(PtqError):
    """A store that refuses a finished output, which is not lost: the command line keeps it on this machine.

    Attributes:
        place: The URL, as it is shown.
        reason: Why the store refuses it.
        content: What was to be written.
    """

    def __init__(self, place: str, reason: str, content: bytes) -> None:
        super().__init__(f"{place} cannot be written: {reason}; choose another place")
        self.place, self.reason, self.content = place, reason, content


class NoGainError(PtqError):
    """A quantized model that is larger and slower than the float model.

    Attributes:
        result: What was made nevertheless: the `ptq.Result` of ``ptq.quantize``.
    """

    exit_code = 3
    topic: Topic | None = "slower-than-float"

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


# ONNX Runtime and ONNX begin a message with codes, source files and signatures.
_PREFIXES = (
    re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : "),
    re.compile(
        r"(?:/\S+/)?onnx\w*/\S+\.(?:h|cc|cpp):\d+:? "
        r"(?:[^()\n]*\((?:[^()\n]|\([^()\n]*\))*\)(?: const)?(?: \[with [^\]\n]*\])? )?"
    ),
    re.compile(r"\w+ == \w+ was false\. "),
)


def find_root_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain of causes."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def shorten_message(error: BaseException) -> str:
    """Return the first line of a library's message without codes and source files, of at most 200 characters.

    A first line that ends with a colon is continued by the next one.
    """
    text = str(error)
    for prefix in _PREFIXES:
        text = prefix.sub("", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if text.endswith(":") and len(lines) > 1:
        text = f"{text} {lines[1]}"
    return text if len(text) <= 200 else text[:197] + "..."
