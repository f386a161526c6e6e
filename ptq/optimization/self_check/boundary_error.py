"""How far from float is what integers hand to nodes that stay float?

That is what can be compared where these decide, as a decoder or a suppression of boxes does, how long an output is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptq.data import Sample
from ptq.evaluation.metrics import numbers
from ptq.model.graph import Graph
from ptq.model.node import dtype_of, name_of, reads
from ptq.model.session import Session
from ptq.optimization.self_check.output_distance import Fault, difference
from ptq.solver.quantizer import Quantization


def edges(made: Quantization) -> dict[str, str]:
    """The real tensors that integer nodes write and float ones read, sub-graphs' too: their names in both models."""
    graph, floats = made.ground.prepared.graph, made.plan.floats
    twins = {node.name: node for node in made.quantized.nodes}
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.name not in floats or node.name not in twins:
            continue
        before, after = reads(node), reads(twins[node.name])
        if len(before) != len(after):
            continue
        for real, rounded in zip(before, after, strict=True):
            maker = real.producer()
            if maker is None or maker.name in floats or dtype_of(real) != np.float32:
                continue
            if rounded.producer() is not None:
                found.setdefault(name_of(real), name_of(rounded))
    return found


def too_far(
    made: Quantization,
    between: Mapping[str, str],
    samples: Sequence[Sample],
    floor: float,
    threads: int,
) -> Fault | None:
    """Which of them are too far from float, if any are.

    Raises:
        ModelError: ONNX Runtime does not take a model that puts them out.
        DataError: It fails on a sample.
    """
    truth, outputs = (
        [[numbers(y) for y in session.run(sample.feed, names)] for sample in samples]
        for session, names in (
            (Session(putting_out(graph, names), threads=threads), names)
            for graph, names in (
                (made.ground.prepared.graph, list(between)),
                (made.quantized, list(between.values())),
            )
        )
    )
    problem = difference(list(between), truth, outputs, floor)
    if problem is None or problem.shares is None:
        return problem
    said = str(problem).replace("output ", "where integers end, ", 1)
    return Fault(said, problem.shares, problem.most, by_values=True, edges=tuple(between))


def putting_out(graph: Graph, names: Sequence[str]) -> Graph:
    """A copy of the graph that puts out these real tensors too."""
    copy = graph.copy()
    copy.expose(names)
    return copy
