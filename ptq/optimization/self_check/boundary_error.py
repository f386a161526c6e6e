"""How far from float is what integers hand to nodes that stay float?

That is what can be compared where these decide, as a decoder or a suppression of boxes does, how long an output is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.evaluation.metrics import numeric_output
from ptq.model.graph import Graph
from ptq.model.node import dtype_of, name_of, values_read_by
from ptq.model.session import Session
from ptq.optimization.self_check.output_distance import CheckFailure, compare_outputs
from ptq.solver.quantizer import QuantizedModel


def integer_to_float_tensors(made: QuantizedModel) -> dict[str, str]:
    """The real tensors that integer nodes write and float ones read, sub-graphs' too: their names in both models."""
    graph, floats = made.calibrated_model.prepared.graph, made.plan.floats
    twins = {node.name: node for node in made.quantized_graph.nodes}
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.name not in floats or node.name not in twins:
            continue
        before, after = values_read_by(node), values_read_by(twins[node.name])
        if len(before) != len(after):
            continue
        for real, rounded in zip(before, after, strict=True):
            maker = real.producer()
            if maker is None or maker.name in floats or dtype_of(real) != np.float32:
                continue
            if rounded.producer() is not None:
                found.setdefault(name_of(real), name_of(rounded))
    return found


def check_boundary_tensors(
    made: QuantizedModel,
    between: Mapping[str, str],
    samples: Sequence[Sample],
    floor: float,
    run: RunOptions,
) -> CheckFailure | None:
    """Which of them are too far from float, if any are.

    Raises:
        ModelError: ONNX Runtime does not take a model that puts them out.
        DataError: It fails on a sample.
    """
    truth, outputs = (
        [[numeric_output(y) for y in session.run(sample.feed, names)] for sample in samples]
        for session, names in (
            (Session(with_extra_outputs(graph, names), threads=run.threads), names)
            for graph, names in (
                (made.calibrated_model.prepared.graph, list(between)),
                (made.quantized_graph, list(between.values())),
            )
        )
    )
    problem = compare_outputs(list(between), truth, outputs, floor)
    if problem is None or problem.error_shares is None:
        return problem
    said = str(problem).replace("output ", "where integers end, ", 1)
    return CheckFailure(
        said,
        problem.error_shares,
        problem.max_share,
        by_values=True,
        boundary_tensors=tuple(between),
    )


def with_extra_outputs(graph: Graph, names: Sequence[str]) -> Graph:
    """A copy of the graph that puts out these real tensors too."""
    copy = graph.copy()
    copy.add_outputs(names)
    return copy
