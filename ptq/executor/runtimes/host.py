"""The process that hosts a provider: it loads the model that its first message holds, and answers the others."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import IO, Any

from numpy.typing import NDArray

from ptq.core.errors import PtqError
from ptq.executor.runtimes.host_messages import Header, read_message, write_message
from ptq.executor.runtimes.provider_model import ProviderModel
from ptq.model.open import open_model
from ptq.model.session.provider_session import Provider


def answer_messages() -> None:
    """Answer the messages on standard input until it ends; native libraries print to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions = sys.stdin.buffer
    header, [content] = read_message(questions)
    graph = open_model(content.tobytes())
    model = ProviderModel(graph, Provider(**header["provider"]), threads=header["threads"])
    while True:
        try:
            _answer(model, questions, answers)
        except EOFError:
            return


def _answer(model: ProviderModel, questions: IO[bytes], answers: IO[bytes]) -> None:
    header, arrays = read_message(questions)
    answer: Header = {}
    found: list[NDArray[Any]] = []
    try:
        if header["call"] == "run":
            found = model.run(dict(zip(header["inputs"], arrays, strict=True)), header["outputs"])
        else:
            answer["nodes"] = [asdict(node) for node in model.placement()]
    except PtqError as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    write_message(answers, answer, found)
