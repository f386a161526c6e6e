"""Lays ONNX Runtime's integers beside the executor's, tensor by tensor, and names the first that diverges.

ONNX Runtime's are read by making graph outputs of what its QuantizeLinear nodes put out, which keeps its fusions;
that the outputs stay the same bits as the plain model's is checked along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.cpu import sums_exactly
from ptq.data import Sample
from ptq.errors import DataError, ModelError
from ptq.execute import Executor
from ptq.graph import Graph, name_of
from ptq.islands import Island
from ptq.session import Session


@dataclass(frozen=True)
class TensorDifference:
    """One integer tensor, over all samples.

    Attributes:
        tensor: Its name in the model.
        node: The node that makes it.
        op: That node's operator.
        elements: How many integers were compared.
        differing: How many differ when each runs by itself, end to end.
        largest: The largest difference in steps, end to end.
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
        islands: Nodes computed in float in both, agreeing by construction; their results are handed on.
        intact: Whether reading the integers left ONNX Runtime's outputs as they were.
        exact_products: Whether this processor sums 8-bit products exactly; None where nobody tells.
    """

    arithmetic: str
    optimized: bool
    samples: int
    tensors: tuple[TensorDifference, ...]
    islands: Mapping[str, tuple[str, ...]]
    intact: bool
    exact_products: bool | None

    @property
    def first(self) -> TensorDifference | None:
        """The first tensor that diverges; None where none does."""
        return next((t for t in self.tensors if t.differing or t.differing_locally), None)

    @property
    def equal(self) -> bool:
        """Whether every integer is the same."""
        return self.first is None and self.intact


def verify(
    graph: Graph,
    samples: Iterable[Sample],
    *,
    arithmetic: str = "ort",
    optimize: bool = True,
    threads: int = 0,
) -> Verification:
    """Compare every integer tensor of a quantized graph.

    Raises:
        ModelError: The graph has no integer tensor.
        DataError: There is no sample, or one does not run.
    """
    executor = Executor(graph, arithmetic)
    makers = {
        name: (step.name, "float" if isinstance(step, Island) else step.op)
        for step in executor.program.steps
        for name in step.outputs
        if name in executor.program.params
    }
    if not makers:
        raise ModelError("the model has no integer tensor; quantize it first")
    level = "all" if optimize else "none"
    exposed_graph = graph.copy()
    exposed_graph.expose(makers)
    plain = Session(graph, threads=threads, optimize=level)
    exposed = Session(exposed_graph, threads=threads, optimize=level)
    outputs = [name_of(v) for v in graph.outputs]
    borders = {n for s in executor.program.steps if isinstance(s, Island) for n in s.outputs}
    tallies = {name: [0, 0, 0, 0] for name in makers}
    count, intact = 0, True
    for sample in samples:
        count += 1
        try:
            theirs = dict(
                zip([*outputs, *makers], exposed.run(sample.feed, [*outputs, *makers]), strict=True)
            )
            alone = plain.run(sample.feed, outputs)
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        intact &= all(_same(theirs[n], a) for n, a in zip(outputs, alone, strict=True))
        given = {n: theirs[n] for n in borders if n in theirs}
        ours = executor.run(sample.feed, makers, given)
        local = executor.run(sample.feed, makers, {n: theirs[n] for n in makers})
        for name, tally in tallies.items():
            _tally(tally, theirs[name], ours[name], local[name])
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
        intact=intact,
        exact_products=sums_exactly(),
    )


def _tally(tally: list[int], theirs: NDArray[Any], ours: NDArray[Any], local: NDArray[Any]) -> None:
    steps = np.abs(theirs.astype(np.int64) - ours.astype(np.int64))
    tally[0] += steps.size
    tally[1] += int(np.count_nonzero(steps))
    tally[2] = max(tally[2], int(steps.max(initial=0)))
    tally[3] += int(np.count_nonzero(theirs != local))


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()
