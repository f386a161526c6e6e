"""Check of the boundary tensors: those that integer nodes write and float nodes read.

Float nodes, for example a decoder or a non-maximum suppression, can decide the length of an output. Then outputs
cannot be compared, but the boundary tensors can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.evaluation.runs.model_outputs import ModelOutputs
from ptq.evaluation.runs.reference import Outputs
from ptq.model.graph import Graph
from ptq.model.node import get_dtype, get_name, list_values_read
from ptq.model.session.exposed_session import with_extra_outputs
from ptq.optimization.self_check.output_distance import CheckFailure, compare_outputs
from ptq.solver.quantizer import QuantizedModel


def find_integer_to_float_tensors(quantized: QuantizedModel) -> dict[str, str]:
    """The float32 tensors that integer nodes write and float nodes or their sub-graphs read.

    Returns:
        The name in the quantized model, by the name in the float model.
    """
    graph, floats = quantized.calibrated_model.prepared.graph, quantized.plan.floats
    nodes = {node.name: node for node in quantized.quantized_graph.nodes}
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.name not in floats or node.name not in nodes:
            continue
        before, after = list_values_read(node), list_values_read(nodes[node.name])
        if len(before) != len(after):
            continue
        for real, rounded in zip(before, after, strict=True):
            producer = real.producer()
            if producer is None or producer.name in floats or get_dtype(real) != np.float32:
                continue
            if rounded.producer() is not None:
                found.setdefault(get_name(real), get_name(rounded))
    return found


def check_boundary_tensors(
    quantized: QuantizedModel,
    between: Mapping[str, str],
    samples: Sequence[Sample],
    required_db: float,
    run: RunOptions,
) -> CheckFailure | None:
    """The failure of the boundary tensors; None if all have the required SQNR.

    Args:
        quantized: The quantized model.
        between: The boundary tensors, as `find_integer_to_float_tensors` returns them.
        samples: The samples to run.
        required_db: The required SQNR.
        run: How the job runs.

    Raises:
        ModelError: ONNX Runtime does not take a model with these tensors as outputs.
        DataError: A model fails on a sample.
    """
    reference = _run_tensors(quantized.calibrated_model.prepared.graph, list(between), samples, run)
    outputs = _run_tensors(quantized.quantized_graph, list(between.values()), samples, run)
    failure = compare_outputs(list(between), reference, outputs, required_db)
    if failure is None or failure.error_shares is None:
        return failure
    return CheckFailure(
        str(failure).replace("output ", "int8/float boundary tensor ", 1),
        failure.error_shares,
        failure.max_share,
        by_values=True,
        boundary_tensors=tuple(between),
    )


def _run_tensors(
    graph: Graph, names: Sequence[str], samples: Sequence[Sample], run: RunOptions
) -> list[Outputs]:
    extended = with_extra_outputs(graph, names)
    places = {get_name(value): place for place, value in enumerate(extended.outputs)}
    found = ModelOutputs(extended, "result", run).run(samples)
    return [[outputs[places[name]] for name in names] for outputs in found]
