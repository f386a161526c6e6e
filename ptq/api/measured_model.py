"""The model of an evaluation in its runtime: ONNX Runtime, the integer executor, or another one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ptq.core.run_options import RunOptions
from ptq.evaluation.runs.engines import (
    Engine,
    make_integer_engine,
    make_session_engine,
    open_session_engine,
)
from ptq.evaluation.runs.run_forms import Opener
from ptq.executor.runtimes.litert_model import InterpretedModel
from ptq.executor.runtimes.registry import OWN_RUNTIMES, RuntimeName, open_in_runtime
from ptq.executor.runtimes.runtime import RuntimeModel
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.verification.ort_like_executor import build_ort_like_executor


@dataclass(frozen=True, eq=False)
class MeasuredModel:
    """The model in its runtime.

    Attributes:
        engine: It as a function.
        openers: What opens it in another process; empty for another runtime, which runs in this one.
        elsewhere: It in another runtime than ONNX Runtime and the integer executor.
    """

    engine: Engine
    openers: tuple[Opener, ...] = ()
    elsewhere: RuntimeModel | None = None

    @property
    def has_fixed_batch(self) -> bool:
        """Whether the other runtime takes one batch only."""
        return self.elsewhere is not None and self.elsewhere.fixed_batch

    @classmethod
    def open(
        cls,
        runtime: RuntimeName,
        graph: Graph,
        content: bytes | None,
        arithmetic: str,
        run: RunOptions,
    ) -> MeasuredModel:
        """Open the model in its runtime.

        Args:
            runtime: The runtime.
            graph: The model.
            content: The `.tflite` file if the graph was read from one.
            arithmetic: The arithmetic of the integer executor.
            run: How the job runs.

        Raises:
            ModelError: The runtime refuses the model.
            UnsupportedError: The runtime is not installed.
        """
        if runtime == "integer":
            opener = partial(_open_integer_engine, graph, arithmetic)
            return cls(opener(), (opener,))
        if content is not None and runtime == "litert":
            elsewhere: RuntimeModel = InterpretedModel(graph, threads=run.threads, content=content)
        elif runtime in OWN_RUNTIMES:
            engine = make_session_engine(Session(graph, threads=run.threads))
            return cls(engine, (partial(open_session_engine, graph, run.for_job()),))
        else:
            elsewhere = open_in_runtime(runtime, graph, threads=run.threads)
        return cls(make_session_engine(elsewhere), elsewhere=elsewhere)


def _open_integer_engine(graph: Graph, arithmetic: str) -> Engine:
    return make_integer_engine(build_ort_like_executor(graph, arithmetic), graph)
