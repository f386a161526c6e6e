"""Is a quantized model fit to be handed over?

It passes ONNX's checker, loads and runs in ONNX Runtime with its optimizations on and off, has the inputs and
outputs of the float model, brings no NaN of its own, and is not far from float on a few samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ptq.core.errors import DataError, ModelError
from ptq.core.plan import Plan
from ptq.data import Sample
from ptq.evaluation.metrics import numeric_output
from ptq.evaluation.session_cache import SessionCache
from ptq.model import external_data
from ptq.model.graph import Graph
from ptq.model.load import check_valid
from ptq.model.node import Value, name_of
from ptq.model.session import Session
from ptq.optimization.self_check.boundary_error import (
    check_boundary_tensors,
    integer_to_float_tensors,
)
from ptq.optimization.self_check.output_distance import CheckFailure, Outputs, compare_outputs
from ptq.solver.quantizer import CalibratedModel, QuantizedModel, apply_plan, solve_plan
from ptq.solver.recipe import Recipe

MIN_SQNR_DB = 20.0
"""What one operator in 8 bits, or a few, reach with ranges that suit the data."""
MIN_SQNR_DEEP_DB = 10.0
"""Below it the error is a tenth of the signal; a deep network may do well between the two."""
SHALLOW_NODES = 20
"""Nodes in integers up to which a network counts as shallow."""
SAMPLES = 2
CONFIRMING, CONFIRMING_SHALLOW = 8, 32
"""Samples that judge what the first few suspect, as two may lie anywhere about the mean error; of a few coordinates
eight do not tell 18 dB from 23, and a shallow network takes little time."""
OPTIMIZATION_LEVELS = ("all", "none")


@dataclass(frozen=True, eq=False)
class ReferenceOutputs:
    """The float model's outputs on a few samples.

    Attributes:
        source: The model.
        samples: They.
        outputs: Its outputs, by sample.
        loaded: Where models are opened.
        advance: Called after each model that is held against them.
    """

    source: Graph
    samples: Sequence[Sample]
    outputs: Sequence[Outputs]
    sessions: SessionCache
    advance: Callable[[], None]


def run_reference(
    ground: CalibratedModel,
    samples: Iterable[Sample],
    loaded: SessionCache,
    count: int = SAMPLES,
    advance: Callable[[], None] = lambda: None,
) -> ReferenceOutputs:
    """Run the float model on the first samples.

    Raises:
        ModelError: ONNX Runtime does not take the float model.
        DataError: It fails on a sample, or a sample is bad.
    """
    session, some = loaded.open_float(ground), list(islice(samples, count))
    outputs = []
    for sample in some:
        try:
            outputs.append(_run(session, sample))
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
    return ReferenceOutputs(ground.source, some, outputs, loaded, advance)


def run_reference_on_more_samples(
    made: QuantizedModel,
    samples: Iterable[Sample],
    loaded: SessionCache,
    advance: Callable[[], None] = lambda: None,
) -> ReferenceOutputs:
    """The truth on more samples; without outputs to compare with where the float model gives others each time.

    Raises:
        DataError: The model fails on a sample.
    """
    count = CONFIRMING_SHALLOW if _is_shallow(made) else CONFIRMING
    truth = run_reference(made.calibrated_model, samples, loaded, count, advance)
    session = truth.sessions.open_float(made.calibrated_model)
    again = [_run(session, sample) for sample in truth.samples]
    same = _compare(truth, again, 2 * MIN_SQNR_DB) is None
    return truth if same else replace(truth, outputs=())


def check(made: QuantizedModel, truth: ReferenceOutputs) -> CheckFailure | None:
    """What is wrong with a quantized model; None where it may be handed over."""
    return check_with_floor(made, truth, required_sqnr_db(made))


def check_with_floor(
    made: QuantizedModel, truth: ReferenceOutputs, floor: float
) -> CheckFailure | None:
    """The same, for so many decibels of signal over error.

    Where values decide how long an output is, what integers hand to float nodes is held to them in its place.
    """
    problem = check_graph(made.quantized_graph, truth, floor)
    truth.advance()
    if problem is None or not problem.only_lengths:
        return problem
    between = integer_to_float_tensors(made)
    if not between:
        return problem
    try:
        return check_boundary_tensors(made, between, truth.samples, floor, truth.sessions.run)
    except (
        ModelError,
        DataError,
    ):  # a value that is no tensor, or a model too large to be there twice
        return problem


def required_sqnr_db(made: QuantizedModel) -> float:
    """How many decibels of signal over error the outputs must have."""
    return MIN_SQNR_DB if _is_shallow(made) else MIN_SQNR_DEEP_DB


def _is_shallow(made: QuantizedModel) -> bool:
    return len(integer_nodes(made)) <= SHALLOW_NODES


def integer_nodes(made: QuantizedModel) -> list[str]:
    """The nodes that are not float, in order."""
    nodes = (str(node.name) for node in made.calibrated_model.prepared.graph.nodes)
    return [name for name in nodes if name not in made.plan.floats]


def quantize_with(
    ground: CalibratedModel,
    recipe: Recipe,
    plan: Plan | None = None,
    floats: Mapping[str, str] | None = None,
) -> QuantizedModel:
    """Quantize with more nodes left float; by a plan, if it is known."""
    recipe = recipe.with_float_nodes(floats or {})
    return apply_plan(ground, recipe, plan or solve_plan(ground, recipe))


def check_graph(graph: Graph, truth: ReferenceOutputs, floor: float) -> CheckFailure | None:
    """What is wrong with a model whose outputs must have so many decibels of signal over error."""
    try:
        check_valid(external_data.proto_without_weights(graph.model)[0], "the quantized model")
        for before, after in (
            (truth.source.inputs, graph.inputs),
            (truth.source.outputs, graph.outputs),
        ):
            if [_signature(v) for v in before] != [_signature(v) for v in after]:
                return CheckFailure("other inputs or outputs than the float model's")
        lengths: CheckFailure | None = None
        for level in OPTIMIZATION_LEVELS:
            session = (
                truth.sessions.open_quantized(graph)
                if level == "all"
                else Session.for_check(graph, threads=truth.sessions.run.threads, optimize=level)
            )
            outputs = [_run(session, sample) for sample in truth.samples]
            problem = _compare(truth, outputs, floor)
            if problem is not None and not problem.only_lengths:
                return problem
            lengths = lengths or problem
    except (ModelError, DataError) as error:
        return CheckFailure(str(error))
    return lengths


def _compare(
    truth: ReferenceOutputs, outputs: Sequence[Outputs], floor: float
) -> CheckFailure | None:
    names = [name_of(value) for value in truth.source.outputs]
    return compare_outputs(names, truth.outputs, outputs, floor)


def _signature(value: Value) -> tuple[str, Any]:
    return name_of(value), value.dtype


def _run(session: Session, sample: Sample) -> Outputs:
    return [numeric_output(output) for output in session.run(sample.feed)]
