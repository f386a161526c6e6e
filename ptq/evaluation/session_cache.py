"""Which sessions does the check of a result leave open for the report? Loading a deep model takes seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptq.core.errors import ModelError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
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

    def open_float(self, ground: CalibratedModel) -> Session:
        """The float model as given; as prepared where ONNX Runtime lacks its operators as given.

        Raises:
            ModelError: ONNX Runtime takes neither.
        """
        of, session = self._sessions.get("float", (None, None))
        if session is None or of is not ground.source:
            session = open_float_session(ground, self.run)
            self._sessions["float"] = ground.source, session
        return session

    def open_quantized(self, graph: Graph) -> Session:
        """A quantized model.

        Raises:
            ModelError: ONNX Runtime does not take it.
        """
        of, session = self._sessions.pop("quantized", (None, None))
        if session is None or of is not graph:
            del session  # so that two are never in memory
            session = Session(graph, threads=self.run.threads)
        self._sessions["quantized"] = graph, session
        return session

    def close(self) -> None:
        """Give the memory back."""
        self._sessions.clear()


def open_float_session(ground: CalibratedModel, run: RunOptions) -> Session:
    """The float model as `Loaded` has it, loaded anew."""
    try:
        return Session.for_reference(ground.source, threads=run.threads)
    except ModelError:
        return Session.for_reference(ground.prepared.graph, threads=run.threads)
