"""What the forms of a model are called in tables."""

from __future__ import annotations

from ptq.evaluation.measurements import Evaluation
from ptq.executor.runtimes.registry import RUNTIMES


def name_engine(runtime: str, arithmetic: str) -> str:
    """What ran a model, in words.

    Args:
        runtime: A name of `RuntimeName`.
        arithmetic: The arithmetic of the integer executor.
    """
    if runtime == "integer":
        return f"integer executor ({arithmetic})"
    return name_runtime(runtime)


def name_runtime(runtime: str) -> str:
    """A runtime in words: ``ort`` or a name of `RUNTIMES`."""
    return RUNTIMES[runtime].title if runtime in RUNTIMES else "ONNX Runtime"


def title_forms(evaluation: Evaluation, arithmetic: str) -> dict[str, str]:
    """The title of each form of an evaluation, with what ran it.

    Args:
        evaluation: The evaluation.
        arithmetic: The arithmetic of the integer executor.
    """
    engine = name_engine(evaluation.runtime, arithmetic)
    return {
        "float": "float",
        "int8": f"int8 in {engine}",
        "integers": name_engine("integer", arithmetic),
        "other": engine,
    }
