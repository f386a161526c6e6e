"""ONNX Runtime with another execution provider than the CPU's, built in or from a plugin package."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import onnxruntime
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError, shorten_message

CPU = "CPUExecutionProvider"
_LOG_FATAL_ONLY, _LOG_VERBOSE = 4, 0
_REJECTED, _PASSED, _REASON = "Validation FAILED for ", "Validation PASSED", "REASON : "


@dataclass(frozen=True)
class Provider:
    """An execution provider.

    Attributes:
        name: Its name in ONNX Runtime.
        device: What to call where its nodes run.
        plugin: The Python package that brings it as a plugin; empty for a provider that is built in.
    """

    name: str
    device: str
    plugin: str = ""


def is_built_in(provider: Provider) -> bool:
    """Whether the installed ONNX Runtime holds the provider."""
    return provider.name in onnxruntime.get_available_providers()


class ProviderSession:
    """A model of fixed shapes in ONNX Runtime with one provider; what this refuses runs on the CPU.

    Attributes:
        outputs: Names of the model's outputs.
    """

    def __init__(self, model: bytes, provider: Provider, *, threads: int) -> None:
        """Load a model from its bytes.

        Raises:
            ModelError: ONNX Runtime or the provider refuses the model.
        """
        try:
            with _redirect_output_to_stderr():
                self._session = _open_session(model, provider, threads, _LOG_FATAL_ONLY)
        except Exception as error:  # ONNX Runtime's errors have no narrower common base class
            raise ModelError(
                f"{provider.device} cannot load the model: {shorten_message(error)}"
            ) from error
        self._provider = provider
        self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once and return all outputs, or the named ones.

        Raises:
            DataError: The provider fails on the feed.
        """
        try:
            results: list[NDArray[Any]] = self._session.run(outputs, dict(feed))
        except Exception as error:  # ONNX Runtime's errors have no narrower common base class
            raise DataError(
                f"{self._provider.device} cannot run the sample: {shorten_message(error)}"
            ) from error
        return results

    def assigned_nodes(self) -> list[tuple[str, str, bool]]:
        """Name, operator, and whether the provider runs it, of each node; empty if ONNX Runtime does not tell."""
        tell = getattr(self._session, "get_provider_graph_assignment_info", None)
        if tell is None:
            return []
        return [
            (node.name, node.op_type, part.ep_name == self._provider.name)
            for part in tell()
            for node in part.get_nodes()
        ]


def read_rejections(model: bytes, provider: Provider) -> dict[str, str]:
    """Why a provider does not take nodes, by node, from its log while it loads a model; empty if it logs nothing.

    Args:
        model: A model of fixed shapes that the provider has loaded before.
        provider: The provider.
    """
    with tempfile.TemporaryFile() as stream:
        with _redirect_output(stream.fileno(), (1, 2)):
            _open_session(model, provider, 1, _LOG_VERBOSE)
        stream.seek(0)
        return parse_rejections(stream.read().decode(errors="replace"))


def parse_rejections(log: str) -> dict[str, str]:
    """The first sentence of each reason in the log of the QNN provider, by the nodes that it is about."""
    found: dict[str, str] = {}
    for block in log.split(_REJECTED)[1:]:
        operator = block.partition("(")[2].partition(")")[0]
        unit, _, rest = block.partition(_REASON)
        reason = rest.partition("\n")[0].partition(". ")[0].partition(f".{operator} node")[0]
        names = re.findall(
            rf"Operator type: {re.escape(operator)} Node name: (.*?) Node index", unit
        )
        if _PASSED not in unit and reason:
            found.update(dict.fromkeys(names, reason.strip().rstrip(".")))
    return found


def _open_session(model: bytes, provider: Provider, threads: int, severity: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = severity
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    given: list[str] = []
    if provider.plugin:
        package = _register_plugin(provider)
        devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == provider.name]
        options.add_provider_for_devices(devices[:1], _get_plugin_options(package))
    else:
        given = [provider.name, CPU]
    return onnxruntime.InferenceSession(model, options, providers=given or None)


def _redirect_output_to_stderr() -> AbstractContextManager[None]:
    """Send what native libraries print to standard error: standard output may be a JSON document."""
    return _redirect_output(2, (1,))


@contextmanager
def _redirect_output(target: int, sources: tuple[int, ...]) -> Iterator[None]:
    """Send what native libraries print to some file descriptors to another one."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {source: os.dup(source) for source in sources}
    for source in sources:
        os.dup2(target, source)
    try:
        yield
    finally:
        for source, copy in kept.items():
            os.dup2(copy, source)
            os.close(copy)


@cache
def _register_plugin(provider: Provider) -> Any:
    """The plugin's package, with its library registered once in this process."""
    package = import_module(provider.plugin)
    onnxruntime.register_execution_provider_library(provider.name, package.get_library_path())
    return package


def _get_plugin_options(package: Any) -> dict[str, str]:
    return {"backend_path": str(package.get_qnn_htp_path())}
