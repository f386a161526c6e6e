"""A graph run in stages: each stage computes what the stages before have not, from the values that they left.

Between two stages later nodes may change, for example their weights. All stages together cost about one run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from ptq.data import Sample
from ptq.data.sample_source import name_sample
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_dtype,
    get_name,
    get_operator,
    is_tensor,
    list_values_read,
)
from ptq.model.session.session import Session

_LIVE_LIMIT = 2**27
"""Bytes of values that are kept between stages; with more, each stage runs the graph from its inputs."""
_Values = dict[str, NDArray[Any]]


class StagedRun:
    """The state of a graph on some samples, between stages."""

    def __init__(self, *, threads: int) -> None:
        """Start before the first stage."""
        self._threads = threads
        self._computed: set[str] = set()
        self._names: list[str] = []
        self._live: list[_Values] = []
        self._known: frozenset[str] = frozenset()

    def run(
        self, graph: Graph, samples: Iterable[Sample], wanted: Sequence[str], later: Sequence[str]
    ) -> Iterator[tuple[str, _Values]]:
        """Run the next stage; yield the name of each sample with the wanted values.

        Args:
            graph: The graph. What it has in common with that of the stage before has the same names.
            samples: The same samples for each stage, in the same order; only read if they are needed.
            wanted: The values to return.
            later: The values that later stages want.

        Raises:
            DataError: The graph fails on a sample; the text names it.
            ModelError: ONNX Runtime does not take the stage.
        """
        nodes, inputs = _find_nodes(graph, wanted, self._known)
        self._computed.update(node.name or "" for node in nodes)
        kept = _list_values_to_keep(graph, later, self._computed)
        made = {get_name(value) for node in nodes for value in node.outputs}
        outputs = [name for name in dict.fromkeys([*wanted, *kept]) if name in made]
        part = graph.extract(nodes, inputs, outputs)
        session = Session.for_calibration(part, threads=self._threads) if outputs else None
        needed = {*inputs, *wanted}.difference(made)
        names, after, size = list[str](), list[_Values](), 0
        for name, values in (
            self._read_live()
            if self._live and needed <= self._known
            else self._read_samples(samples)
        ):
            with name_sample(name):
                feed = {given: values[given] for given in inputs}
                found = [] if session is None else session.run(feed, outputs)
            values.update(zip(outputs, found, strict=True))
            names.append(name)
            if size <= _LIVE_LIMIT:
                after.append({of: values[of] for of in kept if of in values})
                size += sum(array.nbytes for array in after[-1].values())
            yield name, {of: values[of] for of in wanted}
        if size > _LIVE_LIMIT:
            after, kept = [], []
            self._computed.clear()
        self._names, self._live, self._known = names, after, frozenset(kept)

    def _read_samples(self, samples: Iterable[Sample]) -> Iterator[tuple[str, _Values]]:
        live = [*self._live]
        for number, sample in enumerate(samples):
            yield sample.name, {**sample.feed, **(live[number] if live else {})}

    def _read_live(self) -> Iterator[tuple[str, _Values]]:
        while self._live:
            yield self._names.pop(0), self._live.pop(0)


def _find_nodes(
    graph: Graph, wanted: Sequence[str], known: Collection[str]
) -> tuple[list[Node], list[str]]:
    """The nodes that compute the wanted values, and the known values and graph inputs that they read."""
    by_name = {get_name(value): value for node in graph.nodes for value in node.outputs}
    waiting = [by_name[name] for name in wanted if name in by_name and name not in known]
    found: set[Node] = set()
    inputs: dict[str, None] = {}
    while waiting:
        maker = waiting.pop().producer()
        if maker is None or maker in found:
            continue
        found.add(maker)
        for value in list_values_read(maker):
            if value.is_graph_input() or get_name(value) in known:
                inputs[get_name(value)] = None
            else:
                waiting.append(value)
    return [node for node in graph.nodes if node in found], list(inputs)


def _list_values_to_keep(
    graph: Graph, later: Sequence[str], computed: Collection[str]
) -> list[str]:
    """The values that nodes outside the computed ones read, on the way to the values that later stages want."""
    nodes, _ = _find_nodes(graph, later, ())
    read = {
        value for node in nodes if node.name not in computed for value in list_values_read(node)
    }
    read.update(v for node in nodes for v in node.outputs if get_name(v) in later)
    kept: dict[str, None] = {}
    for value in read:
        source = _skip_dequantization(value)
        maker = source.producer()
        is_ready = source.is_graph_input() or (maker is not None and maker.name in computed)
        if is_ready and is_tensor(source) and get_dtype(source) is not None:
            kept[get_name(source)] = None
    return sorted(kept)


def _skip_dequantization(value: Value) -> Value:
    """The integers that a value is dequantized from, so that its readers find the quantizer; else the value."""
    maker = value.producer()
    if maker is None or get_operator(maker) != "DequantizeLinear" or maker.inputs[0] is None:
        return value
    return maker.inputs[0]
