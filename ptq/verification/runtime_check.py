"""A quantized model in the runtime that it is for, tensor by tensor, against what its file says.

ONNX Runtime without optimizations computes what the file says: float between quantizers. Another runtime fuses and
rounds otherwise, so integers differ by a few steps; a tensor diverges where the differences are a hundredth of its
energy. Deeper tensors inherit the differences of earlier ones, so the first one that diverges shows the fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import to_sqnr_db
from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions
from ptq.core.types import QuantParams
from ptq.core.wording import plural
from ptq.data import Sample
from ptq.data.sample_source import name_sample
from ptq.executor.runtimes.registry import RUNTIMES, open_in_runtime
from ptq.executor.runtimes.runtime import Placement
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, Node, Value, get_name, get_onnx_operator, get_operator
from ptq.model.qdq.qdq_units import read_quantizer
from ptq.model.session.exposed_session import with_extra_outputs
from ptq.model.session.session import Session

NO_SAMPLES = "no sample to verify on; give at least one"

LIMIT_DB = 20.0
"""A tensor with a lower signal-to-noise ratio diverges."""
_FLOOR_DB = -60.0
"""The lowest ratio: JSON has no infinity, and null says that nothing differs."""


@dataclass(frozen=True)
class RuntimeTensor:
    """Comparison of one tensor, over all samples.

    Attributes:
        tensor: Name of the tensor.
        node: Name of the node that computes it.
        op: Operator of that node.
        elements: Number of values.
        sqnr_db: Energy of the tensor over energy of the difference, in decibels, at least −60; None if nothing
            differs.
        mismatch: Whether the shape, a NaN or an infinity is another one; the ratio is then −60.
    """

    tensor: str
    node: str
    op: str
    elements: int
    sqnr_db: float | None
    mismatch: bool = False


@dataclass(frozen=True)
class RuntimeCheck:
    """Comparison of a quantized model in a runtime with what a file says.

    Attributes:
        runtime: Name of the runtime.
        samples: Number of samples.
        limit_db: A tensor below this ratio diverges.
        tensors: Comparison of each tensor, in execution order.
        placement: Where the runtime runs each node, quantizers left out; empty if it does not tell.
    """

    runtime: str
    samples: int
    limit_db: float
    tensors: tuple[RuntimeTensor, ...]
    placement: tuple[Placement, ...] = ()

    @property
    def first(self) -> RuntimeTensor | None:
        """The first tensor that diverges; None if none does."""
        below = (t for t in self.tensors if t.sqnr_db is not None and t.sqnr_db < self.limit_db)
        return next(below, None)

    @property
    def passed(self) -> bool:
        """Whether no tensor diverges."""
        return self.first is None

    @property
    def verdict(self) -> str:
        """Whether the runtime computes what the file says, in words."""
        return "computes what the file says" if self.passed else "diverges from the file"


@dataclass
class _EnergyTally:
    params: QuantParams | None
    reference_params: QuantParams | None
    node: Node
    signal: float = 0.0
    noise: float = 0.0
    elements: int = 0
    mismatch: bool = False

    def add(self, reference: NDArray[Any], found: NDArray[Any]) -> None:
        """Add one sample. NaN and infinities must be the same; they would hide the errors of all other values."""
        expected, given = _to_real(reference, self.reference_params), _to_real(found, self.params)
        self.elements += expected.size
        if expected.shape != given.shape:
            self.mismatch = True
            return
        largest = np.finfo(reference.dtype).max if reference.dtype.kind == "f" else math.inf
        # LiteRT's reference kernels clamp infinities to the largest finite number
        expected, given = (array.clip(-largest, largest) for array in (expected, given))
        usual = (np.abs(expected) < largest) & (np.abs(given) < largest)
        if not np.array_equal(expected[~usual], given[~usual], equal_nan=True):
            self.mismatch = True
        self.signal += float((expected[usual] ** 2).sum())
        self.noise += float(((expected[usual] - given[usual]) ** 2).sum())

    def ratio(self) -> float | None:
        """Signal over noise in decibels; None if there is no noise."""
        if self.mismatch:
            return _FLOOR_DB
        return max(to_sqnr_db(self.signal, self.noise), _FLOOR_DB) if self.noise else None


def check_in_runtime(
    graph: Graph,
    samples: Iterable[Sample],
    runtime: str,
    *,
    against: Graph | None,
    run: RunOptions,
) -> RuntimeCheck:
    """Compare every quantized tensor and every output of a graph between a runtime and what a file says.

    Args:
        graph: A quantized graph.
        samples: One feed each.
        runtime: Name of the runtime, see `ptq.executor.runtimes.registry`.
        against: The graph whose tensors are expected; None for the same graph.
        run: How the job runs.

    Raises:
        UnsupportedError: The runtime is not installed.
        ModelError: The runtime refuses the model.
        DataError: There is no sample, or the model fails on one.
    """
    reference = graph if against is None else against
    given, expected = _list_quantized_tensors(graph), _list_quantized_tensors(reference)
    outputs = {get_name(v): _find_computing_node(v) for v in graph.outputs}
    inner = [] if runtime in _WITHOUT_INNER_TENSORS else [n for n in given if n in expected]
    tallies = {n: _EnergyTally(given[n][1], expected[n][1], given[n][0]) for n in inner}
    tallies |= {
        name: _EnergyTally(None, None, node)
        for name, node in outputs.items()
        if node is not None and name not in tallies
    }
    theirs = open_in_runtime(runtime, with_extra_outputs(graph, inner), threads=run.threads)
    ours = Session(with_extra_outputs(reference, inner), threads=run.threads, optimize="none")
    names, count = list(tallies), 0
    for sample in samples:
        count += 1
        with name_sample(sample.name):
            found = theirs.run(sample.feed, names)
            wanted = ours.run(sample.feed, names)
        for name, before, after in zip(names, wanted, found, strict=True):
            tallies[name].add(before, after)
    if not count:
        raise DataError(NO_SAMPLES)
    return RuntimeCheck(
        runtime=runtime,
        samples=count,
        limit_db=LIMIT_DB,
        tensors=tuple(
            RuntimeTensor(
                name,
                tally.node.name or "",
                get_operator(tally.node),
                tally.elements,
                tally.ratio(),
                tally.mismatch,
            )
            for name, tally in tallies.items()
        ),
        placement=theirs.placement(),
    )


_WITHOUT_INNER_TENSORS = ("litert",)
"""Runtimes that return outputs only."""


def describe_runtime_check(check: RuntimeCheck) -> str:
    """One line: the runtime, what was compared, and whether it computes what the file says."""
    compared = f"{plural(len(check.tensors), 'tensor')} on {plural(check.samples, 'sample')}"
    return f"{RUNTIMES[check.runtime].title}, {compared}: {check.verdict}"


def describe_failure(check: RuntimeCheck) -> str:
    """One line on the first tensor that diverges; empty if none does."""
    first = check.first
    if first is None or first.sqnr_db is None:
        return ""
    title = RUNTIMES[check.runtime].title
    ratio = f"{first.sqnr_db:.1f} dB, below {check.limit_db:g}"
    reason = "another shape, NaN or infinity" if first.mismatch else ratio
    return f"{title} diverges first at {first.tensor} ({first.op} {first.node}): {reason}"


def _list_quantized_tensors(graph: Graph) -> Mapping[str, tuple[Node, QuantParams | None]]:
    """The outputs of quantizers in graph order, each with the node that computes the values and the parameters."""
    found = {}
    for node in graph.nodes:
        if get_onnx_operator(node) != "QuantizeLinear":
            continue
        if node.inputs[0] is None:
            continue
        maker = node.inputs[0].producer() or node
        tensor = read_quantizer(node, node.outputs[0])
        if tensor is not None:
            found[get_name(node.outputs[0])] = maker, tensor.params
    return found


def _find_computing_node(value: Value) -> Node | None:
    """The node that computes a value, found through quantizers."""
    node = value.producer()
    while node is not None and node.op_type in QUANTIZERS and node.inputs[0] is not None:
        before = node.inputs[0].producer()
        if before is None:
            break
        node = before
    return node


def _to_real(array: NDArray[Any], params: QuantParams | None) -> NDArray[np.float64]:
    values = np.asarray(array).astype(np.float64)
    if params is None:
        return values
    scale, zero_point = params.broadcast_to_rank(values.ndim)
    return (values - zero_point) * scale.astype(np.float64)
