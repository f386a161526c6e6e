"""ONNX Runtime session of a float graph that returns inner tensors as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptq.model.graph import Graph
from ptq.model.session import Session


@dataclass(frozen=True)
class CollectedTensors:
    """The tensors of a graph to observe.

    Attributes:
        tensors: Float tensors whose values are counted; they may be inputs of the graph.
        channel_axes: Channel axis of each float tensor that is summed by channel.
    """

    tensors: Sequence[str]
    channel_axes: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of all observed tensors, each once."""
        return list(dict.fromkeys([*self.tensors, *self.channel_axes]))


def session_with_outputs(graph: Graph, wanted: CollectedTensors, *, threads: int = 0) -> Session:
    """A session of the graph with the tensors as additional outputs."""
    exposed = graph.copy()
    exposed.add_outputs(wanted.names)
    return Session.for_calibration(exposed, threads=threads)
