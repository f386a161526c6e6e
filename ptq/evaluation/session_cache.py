"""Open sessions that a stage leaves for the next ones; loading a deep model takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ptq.core.errors import ModelError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.evaluation.engines import Engine, session_engine
from ptq.evaluation.model_outputs import ModelOutputs
from ptq.evaluation.reference import Outputs
from ptq.model.graph import Graph
from ptq.model.session import Session
from ptq.solver.quantizer import CalibratedModel


@dataclass(eq=False)
class SessionCache:
    """The float model and the latest quantized one, each loaded once.

    Attributes:
        run: How the job runs.
    """

    run: RunOptions = DEFAULT_RUN
    _sessions: dict[str, tuple[object, Session]] = field(default_factory=dict)

    def open_float(self, model: CalibratedModel) -> Session:
        """The session of `open_float_session`, opened once.

        Raises:
            ModelError: ONNX Runtime cannot load the model.
        """
        graph, session = self._sessions.get("float", (None, None))
        if session is None or graph is not model.source:
            session = open_float_session(model, self.run)
            self._sessions["float"] = model.source, session
        return session

    def open_quantized(self, graph: Graph) -> Session:
        """The session of a quantized model, kept until another one is opened.

        Raises:
            ModelError: ONNX Runtime cannot load the model.
        """
        cached, session = self._sessions.pop("quantized", (None, None))
        if session is None or cached is not graph:
            del session  # two quantized models are never in memory together
            session = Session(graph, threads=self.run.threads)
        self._sessions["quantized"] = graph, session
        return session

    def run_float(self, model: CalibratedModel, samples: Sequence[Sample]) -> list[Outputs]:
        """The outputs of the float model on samples, on all processes of the run.

        Raises:
            ModelError: ONNX Runtime cannot load the model.
            DataError: It fails on a sample; the text names it.
        """
        graphs = [model.source, model.prepared.graph]
        opener = partial(_open_first, graphs, self.run.for_job())
        outputs = ModelOutputs.of_session(self.open_float(model), opener, self.run)
        return list(outputs.run(samples))

    def run_quantized(self, graph: Graph, samples: Sequence[Sample]) -> list[Outputs]:
        """The outputs of a quantized model on samples, on all processes of the run.

        Raises:
            ModelError: ONNX Runtime cannot load the model.
            DataError: It fails on a sample; the text names it.
        """
        return list(self.load_quantized(graph).run(samples))

    def load_quantized(self, graph: Graph) -> ModelOutputs:
        """A quantized model that runs on all processes of the run, by the session of `open_quantized`.

        Raises:
            ModelError: ONNX Runtime cannot load the model.
        """
        opener = partial(Session, graph, threads=self.run.threads)
        return ModelOutputs.of_session(self.open_quantized(graph), opener, self.run)

    def close(self) -> None:
        """Close all sessions and release their memory."""
        self._sessions.clear()


def open_float_engine(source: Graph, prepared: Graph, run: RunOptions) -> Engine:
    """Load the float model as `open_float_session` does, and return its engine."""
    return session_engine(_open_first([source, prepared], run))


def open_float_session(model: CalibratedModel, run: RunOptions) -> Session:
    """Open the original float model; the prepared one if ONNX Runtime lacks an operator of the original.

    Raises:
        ModelError: ONNX Runtime can load neither.
    """
    return _open_first([model.source, model.prepared.graph], run)


def _open_first(graphs: Sequence[Graph], run: RunOptions) -> Session:
    source, prepared = graphs
    try:
        return Session.for_reference(source, prepared=prepared, threads=run.threads)
    except ModelError:
        return Session.for_reference(prepared, threads=run.threads)
