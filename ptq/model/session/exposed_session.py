"""ONNX Runtime session of a float graph that returns inner tensors as outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import Value, get_name, get_shape
from ptq.model.session.session import Session

_SLICE_WITH_INPUTS = 10
"""The opset since which Slice takes its positions as inputs."""


@dataclass(frozen=True)
class CollectedTensors:
    """The tensors of a graph to observe.

    Attributes:
        tensors: Float tensors whose values are counted; they may be inputs of the graph.
        channel_axes: Channel axis of each float tensor that is summed by channel.
        bounds: What no value of a tensor lies beyond, where that is known: it is then counted faster.
    """

    tensors: Sequence[str]
    channel_axes: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of all observed tensors, each once."""
        return list(dict.fromkeys([*self.tensors, *self.channel_axes]))


def open_session_with_outputs(
    graph: Graph,
    wanted: CollectedTensors,
    *,
    held: Collection[str] = (),
    threads: int,
    memory_arena: bool = False,
) -> Session:
    """A session of the graph with the tensors as additional outputs.

    Args:
        graph: A prepared graph.
        wanted: The tensors to return.
        held: Other tensors that the session computes as if it returned them: ONNX Runtime must not fuse the nodes
            around them, because a fused node rounds differently. It releases them as early as without.
        threads: Threads of ONNX Runtime for one operator; 0 is one a core.
        memory_arena: Whether runs take less time and more memory (see `SessionTuning`).
    """
    exposed = graph.copy()
    readers = _add_empty_readers(exposed, [*wanted.names, *held])
    exposed.add_outputs([*wanted.names, *readers])
    return Session.for_calibration(exposed, threads=threads, memory_arena=memory_arena)


def open_session_with_shapes(
    graph: Graph, names: Sequence[str], *, threads: int
) -> tuple[Session, dict[str, str]]:
    """A session that returns the shapes of tensors, and the output that holds the shape of each."""
    exposed = graph.copy()
    shapes = {
        name: get_name(exposed.insert("Shape", [value], output=f"{name}_shape"))
        for name, value in _find_values(exposed, names).items()
    }
    exposed.add_outputs([*shapes.values(), *_add_empty_readers(exposed, names)])
    return Session.for_calibration(exposed, threads=threads), shapes


def with_extra_outputs(graph: Graph, names: Iterable[str]) -> Graph:
    """A copy of the graph with these tensors as additional outputs."""
    exposed = graph.copy()
    exposed.add_outputs(names)
    return exposed


def _find_values(graph: Graph, names: Collection[str]) -> dict[str, Value]:
    """Computed tensors by name, in the order of the graph."""
    made = (value for node in graph.nodes for value in node.outputs if value.name)
    wanted = set(names)
    return {get_name(value): value for value in made if value.name in wanted}


def _add_empty_readers(graph: Graph, names: Collection[str]) -> list[str]:
    """Add a reader to each tensor that takes nothing of it; return the tensors to make outputs.

    ONNX Runtime starts with the last node that nothing reads, and runs what that node needs. The reader of the
    first tensor is therefore the last node: so each tensor is released, or copied into the layout of an output,
    before the next ones are computed.

    A tensor without an axis, or of unknown rank, becomes an output itself. So does every tensor before opset 10,
    where Slice has another form.
    """
    added, zero = list[str](), None
    for name, value in reversed(_find_values(graph, names).items()):
        if not get_shape(value) or graph.opset < _SLICE_WITH_INPUTS:
            added.append(name)
            continue
        zero = zero or graph.add_constant(np.zeros(1, np.int64), "nothing")
        added.append(
            get_name(graph.insert("Slice", [value, zero, zero, zero], output=f"{name}_held"))
        )
    return added
