"""Engines: one form of a model as a function from a feed to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.rounding import round_to_halves
from ptq.core.run_options import RunOptions
from ptq.core.types import FLOAT16, FLOAT32
from ptq.evaluation.metrics import flatten_output
from ptq.executor.arithmetics import get_arithmetic
from ptq.executor.executor import Executor
from ptq.executor.runtimes.runtime import RuntimeModel
from ptq.model.graph import Graph
from ptq.model.node import Value, get_dtype, get_name, get_operator, get_shape, list_consumers
from ptq.model.session.failure import explain_failure
from ptq.model.session.session import Session

EngineName = Literal["ort", "integer"]
"""What runs a model: ONNX Runtime, or the integer executor."""

_FLOATS = (FLOAT16, FLOAT32, np.dtype(np.float64))
Shape = tuple[int | None, ...]

Engine = Callable[[Mapping[str, NDArray[Any]]], list[NDArray[Any]]]
"""Runs one form of a model: feed → outputs in order."""


def make_session_engine(session: Session | RuntimeModel) -> Engine:
    """Engine of a model in ONNX Runtime, or in another runtime."""
    return lambda feed: [flatten_output(output) for output in session.run(feed)]


def make_integer_engine(executor: Executor, graph: Graph) -> Engine:
    """Engine of a quantized model in the integer executor; ``graph`` is the graph that the executor read."""
    names = executor.program.outputs

    def run(feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        with explain_failure(graph, feed):
            results = executor.run(feed)
        return [flatten_output(results[name]) for name in names]

    return run


def open_session_engine(graph: Graph, run: RunOptions) -> Engine:
    """Load a model, and return its engine in ONNX Runtime."""
    return make_session_engine(Session(graph, threads=run.threads))


def open_integer_engine(
    graph: Graph, arithmetic: str, floats: Collection[str] = frozenset()
) -> Engine:
    """Read a quantized model, and return its engine in the integer executor; ``floats`` as for `Executor`."""
    return make_integer_engine(Executor(graph, arithmetic, floats), graph)


def make_float16_engine(engine: Engine) -> Engine:
    """The engine of the same model with float16 in place of float32 at its inputs and outputs."""

    def run(feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        rounded = {name: round_to_halves(array) for name, array in feed.items()}
        return [round_to_halves(output) for output in engine(rounded)]

    return run


def open_engine_of_halves(opener: Callable[[], Engine]) -> Engine:
    """Open an engine, and return `make_float16_engine`."""
    return make_float16_engine(opener())


def find_float_results(graph: Graph, arithmetic: str, names: Collection[str]) -> frozenset[str]:
    """The integer tensors whose values nodes compute in float, quantizers around them or not.

    ONNX Runtime decides by the graph alone: where quantizers stand around a node, it may put an integer kernel there.

    Args:
        graph: The quantized graph.
        arithmetic: What computes its integers.
        names: The nodes that a plan leaves in float.
    """
    if get_arithmetic(arithmetic).is_onnxruntime:
        return frozenset()
    results = [value for node in graph.nodes if node.name in names for value in node.outputs]
    readers = [reader for value in results for reader in list_consumers(value)]
    integers = [r.outputs[0] for r in readers if get_operator(r) == "QuantizeLinear"]
    return frozenset(map(get_name, integers))


def make_named_engine(session: Session | RuntimeModel, names: Sequence[str]) -> Engine:
    """Engine of a model in ONNX Runtime, or in another runtime, that returns the outputs of these names."""
    return lambda feed: [flatten_output(output) for output in session.run(feed, names)]


def make_reference_engine(reference: Graph, graph: Graph, run: RunOptions) -> Engine:
    """Engine of the float model that a graph is compared with; it takes the samples of the graph.

    One may take float16 where the other takes float32, as a `.tflite` file of a float16 model does, or a model of
    another tool: samples are cast for the float model.

    Raises:
        ModelError: The reference has other inputs or outputs, so it is another model.
    """
    names = match_outputs(reference, graph, "Pass the float model this one was quantized from")
    engine = make_named_engine(Session(reference, threads=run.threads), names)
    given = {get_name(v): get_dtype(v) for v in graph.inputs}
    cast = {
        get_name(v): own
        for v in reference.inputs
        if (own := get_dtype(v)) in _FLOATS
        and given[get_name(v)] in _FLOATS
        and own != given[get_name(v)]
    }
    if not cast:
        return engine

    def run_cast(feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        with np.errstate(over="ignore"):
            return engine({name: a.astype(cast.get(name, a.dtype)) for name, a in feed.items()})

    return run_cast


def match_outputs(reference: Graph, graph: Graph, advice: str) -> list[str]:
    """The outputs of the model that a graph is compared with.

    Args:
        reference: The model.
        graph: The graph that is compared with it.
        advice: What to do if they do not fit.

    Returns:
        Their names: those of the graph, or all in order if a name is missing.

    Raises:
        ModelError: The reference has other inputs or outputs, so it is another model.
    """
    names = [get_name(v) for v in graph.outputs]
    reference_names = [get_name(v) for v in reference.outputs]
    if {*names} <= {*reference_names}:
        reference_names = names
    same_inputs = {get_name(v) for v in reference.inputs} == {get_name(v) for v in graph.inputs}
    shapes = {get_name(v): get_shape(v) for v in reference.outputs}
    if (
        not same_inputs
        or len(reference_names) != len(names)
        or any(
            not _is_compatible_shape(get_shape(v), shapes[name])
            for v, name in zip(graph.outputs, reference_names, strict=True)
        )
    ):
        raise ModelError(
            f"the reference model has different inputs or outputs: {_describe_signature(reference)}; "
            f"expected {_describe_signature(graph)}. {advice}"
        )
    return reference_names


def _is_compatible_shape(one: Shape | None, other: Shape | None) -> bool:
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True)
    )


def _describe_signature(graph: Graph) -> str:
    def describe(values: Sequence[Value]) -> str:
        return ", ".join(
            f"{v.name}[{', '.join('?' if d is None else str(d) for d in get_shape(v) or ())}]"
            for v in values
        )

    return f"{describe(graph.inputs) or 'nothing'} → {describe(graph.outputs)}"
