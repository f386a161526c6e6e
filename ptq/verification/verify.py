"""Verification: ONNX Runtime's integers against the executor's, tensor by tensor, with the first difference.

To read ONNX Runtime's integers, the outputs of QuantizeLinear nodes become graph outputs; this keeps its fusions. The
model outputs are compared bit for bit with those of the unchanged model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import reduce

from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions, SizedIterable
from ptq.data import Sample
from ptq.data.preprocessing.recorded_preprocess import AppliedPreprocess
from ptq.data.workers.sample_map import SampleMap
from ptq.executor.arithmetics import add_version
from ptq.executor.executor import Executor
from ptq.executor.program import Step
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import ORT_VERSION
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.verification.changed_outputs import NO_CAUSES, ChangeCauses, find_change_causes
from ptq.verification.node_status import NodeStatus, list_node_statuses
from ptq.verification.runtime_check import NO_SAMPLES, RuntimeCheck
from ptq.verification.tensor_comparison import (
    Compared,
    ComparisonJob,
    TensorComparison,
    TensorTally,
)

_FLOAT_EXPLANATION = (
    "without optimizations ONNX Runtime dequantizes, computes in float32 and quantizes: "
    "values next to a rounding tie can round differently"
)
LAST_BITS = 1e-5
"""Share of a float output's largest value by which two float kernels may differ: of 24 bits sums lose a few."""
_FLOAT_PARTS = "LiteRT computes them by its own float kernels, which differ in their last bits"
_NO_KERNEL = "ONNX Runtime computes it in float: no kernel for these integer types (for example int8 with uint8)"
UNOPTIMIZED_EXPLANATIONS: Mapping[str, str] = {
    "Add": "QLinearAdd adds the zero point before rounding, QuantizeLinear after: ties round differently",
    "Mul": "QLinearMul adds the zero point before rounding, QuantizeLinear after: ties round differently",
    "AveragePool": (
        "QLinearAveragePool adds the zero point before rounding, QuantizeLinear after: ties round differently"
    ),
    "Softmax": (
        "QLinearSoftmax sums exponentials from a table and multiplies by floor(1/scale) instead of 1/scale"
    ),
    "Gemm": "QGemm sums products exactly in int32, Gemm in float32",
    "Conv": "QLinearConv sums products exactly in int32, Conv in float32",
    "MatMul": "QLinearMatMul sums products exactly in int32, MatMul in float32",
}
"""Differences between ONNX Runtime's integer kernels and DequantizeLinear → operator → QuantizeLinear."""


@dataclass(frozen=True)
class TensorDifference:
    """Comparison of one integer tensor, over all samples.

    Attributes:
        tensor: Name of the tensor in the model.
        node: Name of the node that computes it.
        op: Operator of that node.
        elements: Number of compared integers.
        differing: Number of integers that differ end to end, when each engine runs alone.
        largest: Largest difference end to end, in LSB (in ULP for a float result).
        differing_locally: Number of integers that differ when the node reads ONNX Runtime's own inputs.
        largest_share: Of a float output of a `.tflite` file, the largest difference as a share of the sample's
            largest value; else 0.
    """

    tensor: str
    node: str
    op: str
    elements: int
    differing: int
    largest: int
    differing_locally: int
    largest_share: float = 0.0

    @property
    def is_last_bits(self) -> bool:
        """Whether it is equal, or a float output that differs in its last bits alone."""
        differs = self.differing or self.differing_locally
        return not differs or 0 < self.largest_share <= LAST_BITS


@dataclass(frozen=True)
class Verification:
    """Comparison of a quantized model.

    Attributes:
        arithmetic: Arithmetic of the executor, as it was asked for.
        optimized: Whether ONNX Runtime ran with graph optimizations.
        samples: Number of samples.
        tensors: Comparison of each tensor, in execution order.
        islands: Operators of each float island, by name; both engines use ONNX Runtime's results there.
        floats: Nodes that are not computed in integers, each with its reason.
        intact: Whether reading the integers left ONNX Runtime's outputs unchanged.
        exact_products: Whether ONNX Runtime adds products of uint8 and int8 exactly on this processor.
        skipped: Skipped bad samples, each with its reason.
        applied_preprocess: How the samples became arrays; None if they were given as an iterable.
        ort_version: Version of the ONNX Runtime that was compared with.
        runtime: What was compared with the executor; empty for ONNX Runtime.
        arithmetic_version: The arithmetic with the version that it computes like, for example ``ort@1.32``.
        runtime_check: Comparison with another runtime; None if none was asked for.
        not_compared: Number of further integer tensors: float operators compute them, so that there is nothing to
            compare.
        outputs: Number of values of ONNX Runtime's outputs.
        changed_outputs: Number of those that reading the integers changed.
        changed_share: The largest of these changes, as a share of the largest value of the sample's output.
        causes: Why reading the integers changed outputs; empty if it did not.
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
    applied_preprocess: AppliedPreprocess | None = None
    ort_version: str = ""
    arithmetic_version: str = ""
    runtime_check: RuntimeCheck | None = None
    runtime: str = ""
    not_compared: int = 0
    outputs: int = 0
    changed_outputs: int = 0
    changed_share: float = 0.0
    causes: ChangeCauses = NO_CAUSES

    @property
    def first(self) -> TensorDifference | None:
        """First tensor that differs; None if all are equal."""
        return next((t for t in self.tensors if t.differing or t.differing_locally), None)

    @property
    def equal(self) -> bool:
        """Whether all integers and all outputs are equal."""
        return self.first is None and self.intact

    @property
    def differs_in_last_bits(self) -> bool:
        """Whether float outputs alone differ, in their last bits: LiteRT has other float kernels."""
        within = all(t.is_last_bits for t in self.tensors)
        return bool(self.runtime and self.islands) and not self.equal and within

    @property
    def changes_when_read(self) -> bool:
        """Whether all integers are equal, but reading them changed what ONNX Runtime makes of other operators.

        These are float operators, and pairs of quantizers that it merges. Each changed output has one before it.
        """
        return self.first is None and not self.intact and not self.causes.unexplained

    @property
    def passed(self) -> bool:
        """Whether the verification passes: without optimizations, ONNX Runtime computes in float by design."""
        elsewhere = self.runtime_check is None or self.runtime_check.passed
        by_floats = self.differs_in_last_bits or self.changes_when_read
        return (self.equal or by_floats or not self.optimized) and elsewhere

    @property
    def explanations(self) -> dict[str, str]:
        """Reasons for differences, by operator; empty if ONNX Runtime ran with optimizations."""
        if self.runtime and self.islands and not self.equal:
            return {"float parts": _FLOAT_PARTS}
        if self.optimized:
            return {}
        differing = dict.fromkeys(t.op for t in self.tensors if t.differing_locally)
        return {op: UNOPTIMIZED_EXPLANATIONS.get(op, _FLOAT_EXPLANATION) for op in differing}


def verify_graph(
    graph: Graph,
    samples: SizedIterable[Sample],
    *,
    arithmetic: str = "ort",
    optimize: bool = True,
    run: RunOptions,
) -> Verification:
    """Compare every integer tensor of a quantized graph between ONNX Runtime and the executor.

    Args:
        graph: A quantized graph.
        samples: One feed each.
        arithmetic: Arithmetic of the executor.
        optimize: Run ONNX Runtime with graph optimizations.
        run: How the job runs.

    Raises:
        ModelError: The graph has no integer tensor.
        DataError: There is no sample, or the model fails on one.
    """
    job = ComparisonJob(graph, arithmetic, optimize, run.for_job())
    comparison = TensorComparison(job)
    executor, producers = comparison.executor, comparison.producers
    parts = SampleMap(job, run, comparison.run_part).map(samples, most=None)
    found = reduce(Compared.merge, parts, Compared({name: TensorTally() for name in producers}))
    if not found.samples:
        raise DataError(NO_SAMPLES)
    return Verification(
        arithmetic=arithmetic,
        optimized=optimize,
        samples=found.samples,
        tensors=tuple(
            TensorDifference(name, *producers[name], *astuple(tally))
            for name, tally in found.tallies.items()
        ),
        islands=executor.islands,
        floats=_list_float_nodes(graph, executor),
        intact=not found.changed,
        exact_products=has_exact_int8_sums(),
        ort_version=ORT_VERSION,
        arithmetic_version=add_version(arithmetic),
        not_compared=comparison.not_compared,
        outputs=found.outputs,
        changed_outputs=found.changed,
        changed_share=found.changed_share,
        causes=find_change_causes(graph, executor.program, found.changed_names),
    )


def _list_float_nodes(graph: Graph, executor: Executor) -> tuple[NodeStatus, ...]:
    """Nodes that the model leaves in float, and nodes that ONNX Runtime computes in float nevertheless."""
    integers = {step.name for step in executor.program.steps if isinstance(step, Step)}
    statuses = []
    for status in list_node_statuses(graph, executor.arithmetic):
        if status.runs == "integer" and status.node not in integers:
            statuses.append(replace(status, runs="float", why=_NO_KERNEL))
        elif status.runs == "float":
            statuses.append(status)
    return tuple(statuses)
