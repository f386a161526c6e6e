"""A model in ONNX Runtime with another execution provider, compiled for the shapes of its feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ptq.executor.runtimes.runtime import CPU, Placement
from ptq.model.fixed_shapes import fix_input_shapes
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, get_name
from ptq.model.session.provider_session import Provider, ProviderSession, read_rejections


class ProviderModel:
    """A model that a provider runs; it is compiled anew when a feed has other shapes than the one before."""

    fixed_batch = True

    def __init__(self, graph: Graph, provider: Provider, *, threads: int = 0) -> None:
        """Keep the model; it is compiled for its first feed."""
        self._graph, self._provider, self._threads = graph, provider, threads
        self.inputs = tuple(get_name(value) for value in graph.inputs)
        self.outputs = tuple(get_name(value) for value in graph.outputs)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._session: ProviderSession | None = None
        self._rejections: dict[str, str] | None = None

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once and return all outputs, or the named ones.

        Raises:
            ModelError: The provider refuses the model with these shapes.
            DataError: The provider fails on the feed.
        """
        shapes = {name: feed[name].shape for name in self.inputs if name in feed}
        if self._session is None or shapes != self._shapes:
            model = fix_input_shapes(self._graph, shapes).SerializeToString()
            self._session = ProviderSession(model, self._provider, threads=self._threads)
            self._shapes, self._rejections = shapes, None
        return self._session.run(feed, outputs)

    def placement(self) -> tuple[Placement, ...]:
        """Where each node runs, quantizers left out, and why it does not run on the provider; empty before a run."""
        assigned = [] if self._session is None else self._session.assigned_nodes()
        nodes = [(name, op, here) for name, op, here in assigned if op not in QUANTIZERS]
        device = self._provider.device
        return tuple(
            Placement(name, op, device, True)
            if here
            else Placement(name, op, CPU, False, self._find_reason(name))
            for name, op, here in nodes
        )

    def _find_reason(self, node: str) -> str:
        if self._rejections is None:
            model = fix_input_shapes(self._graph, self._shapes).SerializeToString()
            self._rejections = read_rejections(model, self._provider)
        return self._rejections.get(node, "the provider does not take it")
