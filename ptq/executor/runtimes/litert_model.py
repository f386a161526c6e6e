"""A model in LiteRT's interpreter, written as a `.tflite` file first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ptq.executor.runtimes.runtime import Placement
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.tflite.interpreter import LitertModel


class InterpretedModel:
    """A model that LiteRT's interpreter runs with its default kernels."""

    def __init__(self, graph: Graph, *, threads: int, content: bytes | None = None) -> None:
        """Write the model as a `.tflite` file and load it.

        Args:
            graph: The model.
            threads: Threads of one operator; 0 leaves the number to LiteRT.
            content: The file itself if the graph was read from one.

        Raises:
            UnsupportedError: LiteRT's package is not installed, or an operator has no form in LiteRT.
            ModelError: LiteRT refuses the model.
        """
        if content is None:
            content = encode_tflite(graph).content
        self._model = LitertModel(content, threads=threads)
        self.fixed_batch = self._model.has_fixed_batch
        self.inputs = tuple(get_name(value) for value in graph.inputs)
        self.outputs = tuple(get_name(value) for value in graph.outputs)

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once and return all outputs, or the named ones.

        Raises:
            DataError: LiteRT fails on the feed.
        """
        found = self._model.run(feed)
        return [found[name] for name in outputs or self.outputs]

    def placement(self) -> tuple[Placement, ...]:
        """Nothing: the interpreter does not tell."""
        return ()
