"""Open sessions that a stage leaves for the next ones; loading a deep model takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ptq.core.errors import ModelError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.evaluation.runs.engines import Engine, make_session_engine
from ptq.evaluation.runs.model_outputs import ModelOutputs, SessionOpener
from ptq.evaluation.runs.reference import DigestedOutputs, Outputs
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.model.session.single_row_weights import has_single_row_weights
from ptq.solver.quantizer import CalibratedModel


@dataclass(eq=False)
class SessionCache:
    """The float model and the latest quantized one, each loaded once.

    Attributes:
        run: How the job runs.
        known: The digest and the float model's outputs of samples that were run ahead, by name.
    """

    run: RunOptions = DEFAULT_RUN
    known: dict[str, DigestedOutputs] = field(default_factory=dict)
    _sessions: dict[str, tuple[object, Session]] = field(default_factory=dict)
    _float_opener: SessionOpener | None = None

    def open_float(self, model: CalibratedModel) -> Session:
        """The session of `open_float_session`, opened once.

        Raises:
            ModelError: ONNX Runtime cannot load the model.
        """
        graph, session = self._sessions.get("float", (None, None))
        if session is None or graph is not model.source:
            session, self._float_opener = _open_first(model, self.run)
            self._sessions["float"] = model.source, session
        return session

    def float_opener(self, model: CalibratedModel) -> SessionOpener:
        """What opens the session of `open_float` in another process.

        Raises:
            ModelError: ONNX Runtime cannot load the model.
        """
        self.open_float(model)
        assert self._float_opener is not None
        return self._float_opener

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
        opener = self.float_opener(model)
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
        """Close all sessions, forget the outputs, and release the memory."""
        self._sessions.clear()
        self._float_opener = None
        self.known.clear()


def open_float_session(model: CalibratedModel, run: RunOptions) -> Session:
    """Open the original float model; the prepared one if ONNX Runtime lacks an operator of the original.

    Raises:
        ModelError: ONNX Runtime can load neither.
    """
    return _open_first(model, run)[0]


def open_engine(opener: SessionOpener) -> Engine:
    """Load a model, and return its engine."""
    return make_session_engine(opener())


def _open_first(model: CalibratedModel, run: RunOptions) -> tuple[Session, SessionOpener]:
    """The session, and what opens the same one in another process: it gets one graph of the two."""
    single_rows = has_single_row_weights(model.prepared.graph)

    def open_graph(graph: Graph) -> tuple[Session, SessionOpener]:
        opener = partial(Session.for_reference, graph, single_rows=single_rows, threads=run.threads)
        return opener(), opener

    try:
        return open_graph(model.source)
    except ModelError:
        return open_graph(model.prepared.graph)
