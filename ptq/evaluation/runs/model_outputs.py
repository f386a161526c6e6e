"""A model whose outputs on samples are computed on all processes of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from numpy.typing import NDArray

from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part
from ptq.evaluation.runs.reference import Outputs, run_sample
from ptq.model.graph import Graph
from ptq.model.session.session import Session

Purpose = Literal["reference", "range search", "result", "unoptimized result"]
"""What the session is for; see the constructors of `Session`."""
_OPEN: Mapping[str, Callable[..., Session]] = {
    "reference": Session.for_reference,
    "range search": Session.for_range_search,
    "result": Session,
    "unoptimized result": partial(Session.for_check, optimize="none"),
}
SessionOpener = Callable[[], Session]
"""Loads a model; it can be pickled."""


class ModelOutputs:
    """A loaded model."""

    def __init__(self, graph: Graph, purpose: Purpose, run: RunOptions) -> None:
        """Load the model in this process.

        Raises:
            ModelError: ONNX Runtime does not take it.
        """
        job = _OutputsJob(partial(_OPEN[purpose], graph, threads=run.threads))
        self._map = SampleMap(job, run, thread_seconds=math.inf)
        self._map.open_here()

    @classmethod
    def of_session(cls, session: Session, opener: SessionOpener, run: RunOptions) -> ModelOutputs:
        """A model that is loaded in this process already; others load it by ``opener``."""
        found = cls.__new__(cls)
        opened = partial(_run_part, session)
        found._map = SampleMap(_OutputsJob(opener), run, opened, thread_seconds=math.inf)
        return found

    def run(
        self, samples: Sequence[Sample], feeds: Sequence[Mapping[str, NDArray[Any]]] = ()
    ) -> Iterator[Outputs]:
        """The outputs on each sample.

        Args:
            samples: The samples.
            feeds: For each sample, inputs in addition to its own; empty for none.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        for found in self._map.map(samples, arguments=feeds):
            yield from found


@dataclass(frozen=True, eq=False)
class _OutputsJob:
    opener: SessionOpener

    def open(self) -> Callable[[Part], list[Outputs]]:
        return partial(_run_part, self.opener())


def _run_part(session: Session, part: Part) -> list[Outputs]:
    feeds = part.arguments or [None] * len(part.samples)
    return [
        run_sample(session, sample, feed) for sample, feed in zip(part.samples, feeds, strict=True)
    ]
