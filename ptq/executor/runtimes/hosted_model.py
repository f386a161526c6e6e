"""A model that a provider runs in a process of its own: a library that ends that process is an error of this one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError, PtqError
from ptq.executor.runtimes.host_messages import Header, read_message, write_message
from ptq.executor.runtimes.runtime import Placement
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.provider_session import Provider

_ERRORS: Mapping[str, type[PtqError]] = {"DataError": DataError}
"""Errors that the process may answer; all others are of the model."""
_SECONDS = 5.0
"""How long the process may take to end."""


class HostedModel:
    """A model that a provider runs in a process of its own, which starts with the first feed."""

    fixed_batch = True

    def __init__(self, graph: Graph, provider: Provider, *, threads: int = 0) -> None:
        """Keep the model; it is compiled for its first feed."""
        self._graph, self._provider, self._threads = graph, provider, threads
        self.inputs = tuple(get_name(value) for value in graph.inputs)
        self.outputs = tuple(get_name(value) for value in graph.outputs)
        self._process: subprocess.Popen[bytes] | None = None
        self._printed: IO[bytes] | None = None

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once and return all outputs, or the named ones.

        Raises:
            ModelError: The provider refuses the model with these shapes, or its library ends the process.
            DataError: The provider fails on the feed.
        """
        header = {"call": "run", "inputs": [*feed], "outputs": outputs and [*outputs]}
        return self._ask(header, [np.asarray(array) for array in feed.values()])[1]

    def placement(self) -> tuple[Placement, ...]:
        """Where each node runs, quantizers left out, and why it does not run on the provider; empty before a run."""
        if self._process is None:
            return ()
        header, _ = self._ask({"call": "placement"}, [])
        return tuple(Placement(**node) for node in header["nodes"])

    def _ask(
        self, header: Header, arrays: Sequence[NDArray[Any]]
    ) -> tuple[Header, list[NDArray[Any]]]:
        content = b"" if self._process is not None else self._graph.to_bytes()
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if content:
                model = {"provider": asdict(self._provider), "threads": self._threads}
                write_message(process.stdin, model, [np.frombuffer(content, np.uint8)])
            write_message(process.stdin, header, arrays)
            answer, found = read_message(process.stdout)
        except (OSError, EOFError):
            raise ModelError(self._explain_end(process)) from None
        if "error" in answer:
            raise _ERRORS.get(answer["error"], ModelError)(answer["text"])
        return answer, found

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process; it finds ptq where this one does."""
        work = "from ptq.executor.runtimes.host import answer_messages; answer_messages()"
        code = f"import sys; sys.path[:] = {sys.path!r}; {work}"
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 # closed with the process
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
        )
        weakref.finalize(self, _stop, process, self._printed)
        return process

    def _explain_end(self, process: subprocess.Popen[bytes]) -> str:
        """What the process printed last."""
        assert self._printed is not None
        process.wait()
        self._printed.seek(0)
        lines = self._printed.read().decode(errors="replace").split("\n")
        last = next(
            (line.strip() for line in reversed(lines) if line.strip()), "it printed nothing"
        )
        return f"{self._provider.device} crashed on the model (exit {process.returncode}): {last}"


def _stop(process: subprocess.Popen[bytes], printed: IO[bytes]) -> None:
    """End the process."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):  # the process ended before it read everything
                stream.close()
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    printed.close()
