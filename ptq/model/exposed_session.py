"""ONNX Runtime session of a float graph with inner tensors among its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptq.model.graph import Graph
from ptq.model.session import Session


@dataclass(frozen=True)
class CollectedTensors:
    """What to observe of a graph.

    Attributes:
        tensors: Float tensors whose values are counted, inputs of the graph included.
        channels: Float tensors that are summed by channel, with their channel axis.
    """

    tensors: Sequence[str]
    channel_axes: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.tensors, *self.channel_axes]))


def session_with_outputs(graph: Graph, wanted: CollectedTensors, *, threads: int = 0) -> Session:
    """The float model, loaded, with the tensors among its outputs."""
    exposed = graph.copy()
    exposed.add_outputs(wanted.names)
    return Session.for_calibration(exposed, threads=threads)
