"""Lays ONNX Runtime's integers beside the executor's, tensor by tensor, and names the first that diverges.

ONNX Runtime's are read by making graph outputs of what its QuantizeLinear nodes put out, which keeps its fusions;
that the outputs stay the same bits as the plain model's is checked along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.executor.executor import Executor
from ptq.executor.program import Step
from ptq.kernels.thread_pool import parallel_map
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.model.session import Session, has_exact_int8_sums
from ptq.rewrite.shift_to_uint8 import pairs_to_uint8, to_int8
from ptq.verification.node_status import NodeStatus, node_statuses
from ptq.verification.ort_fusions import float_tensors
from ptq.verification.ort_like_executor import comparable_tensors, with_integer_products
from ptq.verification.ulp_order import float_order

_FLOAT_EXPLANATION = (
    "without optimizations ONNX Runtime dequantizes, computes in float32 and quantizes: "
    "a value that falls on a rounding boundary in one may fall beside it in the other"
)
_NO_KERNEL = "ONNX Runtime has no kernel for these integer types together, as int8 beside uint8, and computes in float"
UNOPTIMIZED_EXPLANATIONS: Mapping[str, str] = {
    "Add": "QLinearAdd adds the zero point before it rounds, QuantizeLinear after: ties fall apart",
    "Mul": "QLinearMul adds the zero point before it rounds, QuantizeLinear after: ties fall apart",
    "AveragePool": (
        "QLinearAveragePool adds the zero point before it rounds, QuantizeLinear after: ties fall apart"
    ),
    "Softmax": (
        "QLinearSoftmax sums exponentials from a table and scales by floor(1/scale) instead of 1/scale"
    ),
    "Gemm": "QGemm sums products exactly in int32, Gemm in float32",
    "Conv": "QLinearConv sums products exactly in int32, Conv in float32",
    "MatMul": "QLinearMatMul sums products exactly in int32, MatMul in float32",
}
"""What ONNX Runtime's integer kernels do otherwise than DequantizeLinear → operator → QuantizeLinear."""


@dataclass(frozen=True)
class TensorDifference:
    """One integer tensor, over all samples.

    Attributes:
        tensor: Its name in the model.
        node: The node that makes it.
        op: That node's operator.
        elements: How many integers were compared.
        differing: How many differ when each runs by itself, end to end.
        largest: The largest difference in steps, end to end; of a real result, in units in the last place.
        differing_locally: How many differ when the node is given ONNX Runtime's own inputs.
    """

    tensor: str
    node: str
    op: str
    elements: int
    differing: int
    largest: int
    differing_locally: int


@dataclass(frozen=True)
class Verification:
    """The comparison of a quantized model.

    Attributes:
        arithmetic: The executor's.
        optimized: Whether ONNX Runtime's optimizations were on.
        samples: How many were run.
        tensors: In the order in which they are computed.
        islands: Nodes that both compute in float; ONNX Runtime's results are handed on, not compared.
        floats: Every node that is not computed in integers, with the reason.
        intact: Whether reading the integers left ONNX Runtime's outputs as they were.
        exact_products: Whether ONNX Runtime adds products of uint8 and int8 exactly on this processor.
        skipped: Bad samples that were left out, with the reason.
    """

    arithmetic: str
    optimized: bool
    samples: int
    tensors: tuple[TensorDifference, ...]
    islands: Mapping[str, tuple[str, ...]]
    floats: tuple[NodeStatus, ...]
    intact: bool
    exact_products: bool
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def first(self) -> TensorDifference | None:
        """The first tensor that diverges; None where none does."""
        return next((t for t in self.tensors if t.differing or t.differing_locally), None)

    @property
    def equal(self) -> bool:
        """Whether every integer is the same."""
        return self.first is None and self.intact

    @property
    def passed(self) -> bool:
        """Whether there is nothing to mend: without optimizations ONNX Runtime computes in float by design."""
        return self.equal or not self.optimized

    @property
    def explanations(self) -> dict[str, str]:
        """Why they differ, by operator: only where ONNX Runtime ran without optimizations."""
        if self.optimized:
            return {}
        differing = dict.fromkeys(t.op for t in self.tensors if t.differing_locally)
        return {op: UNOPTIMIZED_EXPLANATIONS.get(op, _FLOAT_EXPLANATION) for op in differing}


def verify_graph(
    graph: Graph,
    samples: Iterable[Sample],
    *,
    arithmetic: str = "ort",
    optimize: bool = True,
    run: RunOptions = DEFAULT_RUN,
) -> Verification:
    """Compare every integer tensor of a quantized graph.

    Raises:
        ModelError: The graph has no integer tensor.
        DataError: There is no sample, or one does not run.
    """
    level = "all" if optimize else "none"
    executor = Executor(graph, arithmetic)
    exposed_graph, moved, floats = graph.copy(), frozenset[str](), frozenset[str]()
    if optimize:
        exposed_graph, moved = pairs_to_uint8(graph)
        executor, floats = with_integer_products(executor, graph)
    exposed_graph.add_outputs(comparable_tensors(executor.program, graph))
    if optimize and (further := float_tensors(exposed_graph)):
        executor = Executor(graph, arithmetic, floats | further)
    seen = comparable_tensors(executor.program, graph)
    if seen.isdisjoint(executor.program.params):
        raise ModelError("the model has no integer tensor; quantize it first")
    makers = {
        name: (step.name, step.op)
        for step in executor.program.steps
        if isinstance(step, Step)
        for name in step.outputs
        if name in seen
    }
    plain = Session(graph, threads=run.threads, optimize=level)
    exposed = Session(exposed_graph, threads=run.threads, optimize=level)
    outputs = [name_of(v) for v in graph.outputs]
    borders = seen - makers.keys()
    wanted = list(dict.fromkeys([*outputs, *makers, *borders]))
    tallies = {name: [0, 0, 0, 0] for name in makers}
    count, intact = 0, True
    for sample in samples:
        count += 1
        try:
            theirs = dict(zip(wanted, exposed.run(sample.feed, wanted), strict=True))
            theirs.update({name: to_int8(theirs[name]) for name in moved & theirs.keys()})
            alone = plain.run(sample.feed, outputs)
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        intact &= all(_is_bitwise_equal(theirs[n], a) for n, a in zip(outputs, alone, strict=True))
        given = [{n: theirs[n] for n in names} for names in (borders, seen)]
        ours, local = parallel_map(partial(executor.run, sample.feed, makers), given)
        for name, tally in tallies.items():
            _count_differences(tally, theirs[name], ours[name], local[name])
    if not count:
        raise DataError("there is no sample to verify on; give at least one")
    return Verification(
        arithmetic=arithmetic,
        optimized=optimize,
        samples=count,
        tensors=tuple(
            TensorDifference(name, *makers[name], *tally) for name, tally in tallies.items()
        ),
        islands=executor.islands,
        floats=_float_nodes(graph, executor),
        intact=intact,
        exact_products=has_exact_int8_sums(),
    )


def _float_nodes(graph: Graph, executor: Executor) -> tuple[NodeStatus, ...]:
    """The nodes left float by their model or their types, and those that ONNX Runtime leaves so all the same."""
    integers = {step.name for step in executor.program.steps if isinstance(step, Step)}
    found = []
    for fate in node_statuses(graph, executor.arithmetic):
        if fate.runs == "integer" and fate.node not in integers:
            found.append(replace(fate, runs="float", why=_NO_KERNEL))
        elif fate.runs == "float":
            found.append(fate)
    return tuple(found)


def _count_differences(
    tally: list[int], theirs: NDArray[Any], ours: NDArray[Any], local: NDArray[Any]
) -> None:
    if not theirs.shape == ours.shape == local.shape:
        count = max(theirs.size, ours.size, 1)
        tally[:] = tally[0] + count, tally[1] + count, max(tally[2], 1), tally[3] + count
        return
    steps = np.abs(float_order(theirs) - float_order(ours))
    tally[0] += steps.size
    tally[1] += int(np.count_nonzero(steps))
    tally[2] = max(tally[2], int(steps.max(initial=0)))
    tally[3] += int(np.count_nonzero(theirs != local))


def _is_bitwise_equal(one: Any, other: Any) -> bool:
    """Whether two outputs are bit for bit the same: arrays, sequences of them, or nothing."""
    if isinstance(one, list):
        pairs = zip(one, other, strict=True) if len(one) == len(other) else [(one, None)]
        return all(_is_bitwise_equal(*pair) for pair in pairs)
    if one is None or other is None:
        return one is other
    return bool(one.shape == other.shape and one.tobytes() == other.tobytes())
