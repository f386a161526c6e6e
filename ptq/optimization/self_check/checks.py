"""The checks of a quantized model.

1. It passes ONNX's checker.
2. It loads and runs in ONNX Runtime, with graph optimizations on and off.
3. It has the inputs and outputs of the float model.
4. Its outputs have no NaN where the float model has none.
5. Its outputs have the required SQNR on a few samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ptq.core.errors import DataError, ModelError
from ptq.data import Sample
from ptq.evaluation.runs.model_outputs import ModelOutputs
from ptq.evaluation.runs.reference import Outputs, ReferenceOutputs
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.model.graph import Graph
from ptq.model.node import Value, get_name
from ptq.model.proto import external_data
from ptq.model.proto.load import check_valid
from ptq.optimization.self_check.boundary_error import (
    check_boundary_tensors,
    find_integer_to_float_tensors,
)
from ptq.optimization.self_check.output_distance import CheckFailure, compare_outputs
from ptq.solver.quantizer import CalibratedModel, QuantizedModel

MIN_SQNR_DB = 20.0
"""The SQNR that a few 8-bit operators reach with suitable ranges; required of shallow networks."""
MIN_SQNR_DEEP_DB = 10.0
"""Required of deep networks, which can be accurate below 20 dB; here the error is a tenth of the signal."""
_STABLE_SQNR_DB = 40.0
"""The SQNR that the float model must have to itself: a hundredth of the error that the check looks for."""
SHALLOW_NODES = 20
"""The highest number of integer nodes of a shallow network."""
SAMPLES = 2
"""Samples of the first check."""
CONFIRMING, CONFIRMING_SHALLOW = 8, 32
"""Samples that confirm a failure, since the error of two samples can differ much from the mean. With outputs of few
elements, eight samples do not distinguish 18 dB from 23 dB; a shallow network is fast enough for 32."""
OPTIMIZATION_LEVELS = ("all", "none")
"""ONNX Runtime's graph optimization levels that a model must run with."""


@dataclass(frozen=True, eq=False)
class CheckReference:
    """What quantized models are checked against.

    Attributes:
        source: The float model.
        reference: Its outputs; without outputs if they cannot be compared with others.
        sessions: Opens the models.
        advance: Called after each model that is checked.
        instability: What rounding in float alone does to the outputs, if that forbids to compare them; else empty.
    """

    source: Graph
    reference: ReferenceOutputs
    sessions: SessionCache
    advance: Callable[[], None]
    instability: str = ""


def run_reference(
    model: CalibratedModel,
    samples: Iterable[Sample],
    sessions: SessionCache,
    count: int = SAMPLES,
    *,
    advance: Callable[[], None],
) -> CheckReference:
    """Run the float model on the first ``count`` samples.

    Raises:
        ModelError: ONNX Runtime does not take the float model.
        DataError: The float model fails on a sample, or a sample is bad.
    """
    chosen = list(islice(samples, count))
    reference = ReferenceOutputs(chosen, sessions.run_float(model, chosen))
    return CheckReference(model.source, reference, sessions, advance)


def run_reference_on_more_samples(
    quantized: QuantizedModel,
    samples: Iterable[Sample],
    sessions: SessionCache,
    advance: Callable[[], None],
) -> CheckReference:
    """Run the float model on enough samples to confirm a failure.

    The outputs are dropped if the float model returns others on each run, or without graph optimizations: it adds in
    another order then. This happens to noise, and to outputs near 0.

    Raises:
        DataError: The model fails on a sample.
    """
    count = CONFIRMING_SHALLOW if _is_shallow(quantized) else CONFIRMING
    first = run_reference(quantized.calibrated_model, samples, sessions, count, advance=advance)
    chosen = first.reference.samples
    again = sessions.run_float(quantized.calibrated_model, chosen)
    dropped = replace(first, reference=ReferenceOutputs(chosen, ()))
    if _compare(first, again, _STABLE_SQNR_DB) is not None:
        return dropped
    run = sessions.run
    try:
        plain = list(ModelOutputs(first.source, "unoptimized result", run).run(chosen))
    except ModelError:  # it needs its graph optimizations
        return first
    if (failure := _compare(first, plain, _STABLE_SQNR_DB)) is not None and failure.by_values:
        return replace(
            dropped, instability=f"rounding in float alone changes the float model: {failure}"
        )
    return first


def check(quantized: QuantizedModel, against: CheckReference) -> CheckFailure | None:
    """Check a quantized model; None if it passes."""
    return check_with_floor(quantized, against, get_required_sqnr_db(quantized))


def check_with_floor(
    quantized: QuantizedModel, against: CheckReference, required_db: float
) -> CheckFailure | None:
    """Check a quantized model for a required SQNR; None if it passes.

    If values decide the length of an output, the boundary tensors are checked in its place.
    """
    failure = check_graph(quantized.quantized_graph, against, required_db)
    against.advance()
    if failure is None or not failure.only_lengths:
        return failure
    between = find_integer_to_float_tensors(quantized)
    if not between:
        return failure
    run = against.sessions.run
    try:
        return check_boundary_tensors(
            quantized, between, against.reference.samples, required_db, run
        )
    except (ModelError, DataError):
        # a boundary value is not a tensor, or the model is too large to be loaded twice
        return failure


def get_required_sqnr_db(quantized: QuantizedModel) -> float:
    """The SQNR that the outputs must have."""
    return MIN_SQNR_DB if _is_shallow(quantized) else MIN_SQNR_DEEP_DB


def _is_shallow(quantized: QuantizedModel) -> bool:
    return len(list_integer_nodes(quantized)) <= SHALLOW_NODES


def list_integer_nodes(quantized: QuantizedModel) -> list[str]:
    """The nodes that are not float, in graph order."""
    nodes = (str(node.name) for node in quantized.calibrated_model.prepared.graph.nodes)
    return [name for name in nodes if name not in quantized.plan.floats]


def check_graph(graph: Graph, against: CheckReference, required_db: float) -> CheckFailure | None:
    """Check a graph by its outputs only; None if it passes."""
    try:
        check_valid(external_data.detach_weights(graph.model)[0], "the quantized model")
        for before, after in (
            (against.source.inputs, graph.inputs),
            (against.source.outputs, graph.outputs),
        ):
            if [_get_signature(v) for v in before] != [_get_signature(v) for v in after]:
                return CheckFailure("inputs or outputs differ from the float model's")
        only_lengths: CheckFailure | None = None
        sessions, samples = against.sessions, against.reference.samples
        for level in OPTIMIZATION_LEVELS:
            if level == "all":
                outputs = sessions.run_quantized(graph, samples)
            else:  # the first check shows that the model loads and runs; more samples confirm a failure
                some = samples[:1] if len(samples) <= SAMPLES else samples
                outputs = list(ModelOutputs(graph, "unoptimized result", sessions.run).run(some))
            failure = _compare(against, outputs, required_db)
            if failure is not None and not failure.only_lengths:
                return failure
            only_lengths = only_lengths or failure
    except (ModelError, DataError) as error:
        return CheckFailure(str(error))
    return only_lengths


def _compare(
    against: CheckReference, outputs: Sequence[Outputs], required_db: float
) -> CheckFailure | None:
    names = [get_name(value) for value in against.source.outputs]
    return compare_outputs(names, against.reference.outputs[: len(outputs)], outputs, required_db)


def _get_signature(value: Value) -> tuple[str, Any]:
    return get_name(value), value.dtype
