"""The runtimes in which a model can be measured, one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Literal

from ptq.core.errors import UnsupportedError
from ptq.core.option_checks import require_choice
from ptq.executor.runtimes.hosted_model import HostedModel
from ptq.executor.runtimes.litert_model import InterpretedModel
from ptq.executor.runtimes.openvino_model import OpenVinoModel
from ptq.executor.runtimes.provider_model import ProviderModel
from ptq.executor.runtimes.runtime import RuntimeModel
from ptq.model.graph import Graph
from ptq.model.session.provider_session import Provider, is_built_in

RuntimeName = Literal[
    "ort", "integer", "openvino", "litert", "qnn", "ort-xnnpack", "ort-cuda", "ort-openvino"
]
"""What runs a model: ``ort`` is ONNX Runtime on the CPU, ``integer`` the integer executor; others as `RUNTIMES`."""
OWN_RUNTIMES = ("ort", "integer")
"""Runtimes that every installation of ptq has."""


@dataclass(frozen=True)
class Runtime:
    """A runtime that need not be installed.

    Attributes:
        name: The name that a user gives.
        title: What reports call it.
        package: The Python package that it needs; empty if a build of ONNX Runtime brings it.
        install: The command that installs it.
        open: Loads a model with a number of threads.
        provider: Its execution provider, if ONNX Runtime runs it.
        is_emulator: It computes like a processor that is not here; its times mean nothing.
    """

    name: str
    title: str
    package: str
    install: str
    open: Callable[..., RuntimeModel]
    provider: Provider | None = None
    is_emulator: bool = False

    def is_installed(self) -> bool:
        """Whether it can run models here."""
        if self.package:
            return find_spec(self.package) is not None
        return self.provider is not None and is_built_in(self.provider)


def _make_built_in(name: str, provider: str, title: str, install: str) -> Runtime:
    row = Provider(provider, title)
    return Runtime(name, title, "", install, partial(ProviderModel, provider=row), row)


_QNN = Provider("QNNExecutionProvider", "HTP", "onnxruntime_qnn")

RUNTIMES: Mapping[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        Runtime(
            "openvino", "OpenVINO", "openvino", "pip install 'onnx-ptq[openvino]'", OpenVinoModel
        ),
        Runtime(
            "litert", "LiteRT", "ai_edge_litert", "pip install 'onnx-ptq[litert]'", InterpretedModel
        ),
        Runtime(
            "qnn",
            "Qualcomm's HTP (emulator)",
            "onnxruntime_qnn",
            "pip install 'onnx-ptq[qnn]'",
            partial(HostedModel, provider=_QNN),  # its compiler may end the process
            _QNN,
            is_emulator=True,
        ),
        _make_built_in("ort-xnnpack", "XnnpackExecutionProvider", "XNNPACK", "ONNX Runtime built with XNNPACK"),
        _make_built_in("ort-cuda", "CUDAExecutionProvider", "CUDA", "pip install onnxruntime-gpu"),
        _make_built_in("ort-openvino", "OpenVINOExecutionProvider", "OpenVINO's provider",
                  "pip install onnxruntime-openvino"),
    )
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TargetRuntime:
    """The runtime that a quantized model is for.

    Attributes:
        runtime: The runtime.
        model: The model in it; None if it is not loaded.
        problem: Why it is not loaded, in the runtime's words; empty if it is, or if the runtime is not installed.
    """

    runtime: Runtime
    model: RuntimeModel | None = None
    problem: str = ""

    @property
    def measured_model(self) -> RuntimeModel | None:
        """The model if it is measured on all samples; an emulator takes seconds for each."""
        return None if self.runtime.is_emulator else self.model


def open_in_runtime(name: str, graph: Graph, *, threads: int) -> RuntimeModel:
    """Load a model in a runtime.

    Args:
        name: A name of `RUNTIMES`.
        graph: The model.
        threads: Threads of one operator; 0 leaves the number to the runtime.

    Raises:
        UsageError: There is no such runtime.
        UnsupportedError: It is not installed.
        ModelError: The runtime refuses the model.
    """
    require_choice("runtime", name, RUNTIMES)
    require_installed(name)
    return RUNTIMES[name].open(graph, threads=threads)


def require_installed(name: str) -> None:
    """Check that a runtime of `RUNTIMES` is installed.

    Raises:
        UnsupportedError: It is not; the text says the command that installs it.
    """
    runtime = RUNTIMES[name]
    if not runtime.is_installed():
        raise UnsupportedError(
            f"runtime {name} ({runtime.title}) is not installed; it needs: {runtime.install}"
        )
