"""The two models of a comparison, each in its runtime: a `.tflite` file in LiteRT, others in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import PtqError
from ptq.core.run_options import RunOptions
from ptq.evaluation.runs.engines import (
    Engine,
    make_named_engine,
    make_reference_engine,
    make_session_engine,
    match_outputs,
    open_session_engine,
)
from ptq.evaluation.runs.run_forms import Opener
from ptq.evaluation.speed import Speed, measure_speed
from ptq.executor.runtimes.litert_model import InterpretedModel
from ptq.executor.runtimes.runtime import RuntimeModel
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.open import Model, read_tflite_content
from ptq.model.session.session import Session
from ptq.rewrite.border.element_types import open_with_float_border
from ptq.rewrite.tflite.write import TfliteOptions

_ADVICE = "Compare models with the same inputs and outputs"


def _find_runtime(session: Session | RuntimeModel) -> str:
    return "ort" if isinstance(session, Session) else "litert"


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """One of the two models.

    Attributes:
        graph: Its graph.
        content: The bytes of a `.tflite` file; None for an ONNX model.
    """

    graph: Graph
    content: bytes | None

    @classmethod
    def read(cls, model: Model) -> ComparedModel:
        """Read a model that a user passes.

        Raises:
            ModelError: It cannot be read.
        """
        return cls(open_with_float_border(model), read_tflite_content(model))

    def load(self, threads: int) -> Session | RuntimeModel:
        """Load it into the runtime that it is for.

        Raises:
            ModelError: The runtime refuses it.
        """
        if self.content is None:
            return Session(self.graph, threads=threads)
        return InterpretedModel(self.graph, threads=threads, content=self.content)


class ComparedPair:
    """Both models, loaded."""

    def __init__(self, old: ComparedModel, new: ComparedModel, run: RunOptions) -> None:
        """Load both.

        Raises:
            ModelError: A runtime refuses one, or they have other inputs or outputs.
        """
        self._old, self._new, self._run = old, new, run
        self._names = match_outputs(old.graph, new.graph, _ADVICE)
        self._sessions = old.load(run.threads), new.load(run.threads)
        self._has_file = old.content is not None or new.content is not None

    @property
    def has_fixed_batch(self) -> bool:
        """Whether a `.tflite` file takes one batch only."""
        return any(s.fixed_batch for s in self._sessions if not isinstance(s, Session))

    def old_engine(self) -> Engine:
        """The old model; its outputs stand in the order of the new one's."""
        return make_named_engine(self._sessions[0], self._names)

    def new_engine(self) -> Engine:
        """The new model."""
        return make_session_engine(self._sessions[1])

    def openers(self) -> tuple[Opener, ...]:
        """What opens both in another process; LiteRT runs in this one."""
        if self._has_file:
            return ()
        job = self._run.for_job()
        old = partial(make_reference_engine, self._old.graph, self._new.graph, job)
        return old, partial(open_session_engine, self._new.graph, job)

    def measure_speed(self, feed: Mapping[str, NDArray[Any]]) -> tuple[Speed, tuple[str, str]]:
        """The speed of the new model relative to the old one, and the runtime of each.

        Beside a `.tflite` file the other model runs in LiteRT too, if it can be written for that.
        """
        old = self._load_for_timing(self._old, self._sessions[0], feed)
        new = self._load_for_timing(self._new, self._sessions[1], feed)
        return measure_speed(old, new, feed), (_find_runtime(old), _find_runtime(new))

    def _load_for_timing(
        self,
        model: ComparedModel,
        session: Session | RuntimeModel,
        feed: Mapping[str, NDArray[Any]],
    ) -> Session | RuntimeModel:
        if not isinstance(session, Session):
            return session
        if self._has_file:
            shapes = {name: array.shape for name, array in feed.items()}
            try:
                content = encode_tflite(model.graph, TfliteOptions(shapes=shapes)).content
                written = InterpretedModel(model.graph, threads=self._run.threads, content=content)
                written.run(feed)
            except PtqError:  # LiteRT lacks an operator of it
                pass
            else:
                return written
        return Session.for_timing(model.graph, threads=self._run.threads, opened=session)
