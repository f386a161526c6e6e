"""The errors that leave ptq.

    PtqError            anything that ptq says to its user, in one line
    ├── UsageError      an option or argument that makes no sense (exit code 2)
    ├── ModelError      the model: unreadable, invalid, or beyond what is supported
    │   └── UnsupportedError    one node that the chosen arithmetic or form cannot express
    ├── DataError       the samples: missing, unreadable, or not of the model's shape
    ├── PlanError       a plan that does not fit the graph
    └── StatsError      statistics that are damaged or belong to another graph

Every message says what is wrong, where, and what to do.
"""

import re


class PtqError(Exception):
    """Base of everything that ptq raises on purpose; its text is one line for a user."""

    exit_code = 1


class UsageError(PtqError):
    """An option or argument that makes no sense."""

    exit_code = 2


class ModelError(PtqError):
    """A model that cannot be read, is invalid, or is beyond what is supported."""


class UnsupportedError(ModelError):
    """A node that the chosen arithmetic or output form cannot express."""


class DataError(PtqError):
    """Samples that are missing, unreadable, or do not fit the model."""


class PlanError(PtqError):
    """A quantization plan that does not fit the graph."""


class StatsError(PtqError):
    """Calibration statistics that are damaged or belong to another graph."""


# ONNX Runtime and ONNX put codes, source files and signatures before what they have to say
_PREFIXES = (
    re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : "),
    re.compile(
        r"(?:/\S+/)?onnx\w*/\S+\.(?:h|cc|cpp):\d+:? "
        r"(?:[^()\n]*\((?:[^()\n]|\([^()\n]*\))*\)(?: const)?(?: \[with [^\]\n]*\])? )?"
    ),
    re.compile(r"\w+ == \w+ was false\. "),
)


def root_cause(error: BaseException) -> BaseException:
    """The error that others were raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def short_message(error: BaseException) -> str:
    """The first line of a library's message without its codes and source files, short enough for ours."""
    text = str(error)
    for prefix in _PREFIXES:
        text = prefix.sub("", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
