"""The integers of ONNX Runtime and of the executor on samples, tensor by tensor, on all processes of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.run_options import RunOptions
from ptq.data.sample_source import name_sample
from ptq.data.workers.sample_parts import Part
from ptq.executor.executor import Executor
from ptq.executor.program import Step
from ptq.kernels.thread_pool import map_in_parallel
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.session import Session
from ptq.rewrite.shift_to_uint8 import shift_pairs_to_uint8, to_int8
from ptq.verification.ort_fusions import find_tensors_from_float
from ptq.verification.ort_like_executor import find_comparable_tensors, with_integer_products
from ptq.verification.ulp_order import to_ulp_order


@dataclass
class TensorTally:
    """Comparison of one tensor over some samples.

    Attributes:
        elements: Number of compared integers.
        differing: Number of integers that differ end to end.
        largest: Largest difference end to end.
        differing_locally: Number of integers that differ when the node reads ONNX Runtime's own inputs.
    """

    elements: int = 0
    differing: int = 0
    largest: int = 0
    differing_locally: int = 0

    def add(self, theirs: NDArray[Any], ours: NDArray[Any], local: NDArray[Any]) -> None:
        """Add one sample."""
        if not theirs.shape == ours.shape == local.shape:
            count = max(theirs.size, ours.size, 1)
            self.merge(TensorTally(count, count, 1, count))
            return
        distances = np.abs(to_ulp_order(theirs) - to_ulp_order(ours))
        different, apart = np.count_nonzero(distances), np.count_nonzero(theirs != local)
        largest = int(distances.max(initial=0))
        self.merge(TensorTally(distances.size, int(different), largest, int(apart)))

    def merge(self, other: TensorTally) -> None:
        """Add what other samples gave."""
        self.elements += other.elements
        self.differing += other.differing
        self.largest = max(self.largest, other.largest)
        self.differing_locally += other.differing_locally


@dataclass
class Compared:
    """What a part of the samples gave.

    Attributes:
        tallies: The comparison of each tensor.
        samples: Number of samples.
        outputs: Number of values of ONNX Runtime's outputs.
        changed: Number of those that are other values where the integers are read.
        changed_share: The largest change, as a share of the largest value of the sample's output.
        changed_names: Names of the outputs with such values.
    """

    tallies: dict[str, TensorTally]
    samples: int = 0
    outputs: int = 0
    changed: int = 0
    changed_share: float = 0.0
    changed_names: set[str] = field(default_factory=set)

    def merge(self, other: Compared) -> Compared:
        """This with other samples."""
        for name, tally in self.tallies.items():
            tally.merge(other.tallies[name])
        return Compared(
            self.tallies,
            self.samples + other.samples,
            self.outputs + other.outputs,
            self.changed + other.changed,
            max(self.changed_share, other.changed_share),
            self.changed_names | other.changed_names,
        )

    def add_change(self, plain: Any, exposed: Any) -> None:
        """Add an output of a sample, without and with reading: an array, a sequence of arrays, or None."""
        if isinstance(plain, list) and isinstance(exposed, list) and len(plain) == len(exposed):
            for pair in zip(plain, exposed, strict=True):
                self.add_change(*pair)
        elif plain is not None or exposed is not None:
            size, changed, share = _measure_change(plain, exposed)
            self.outputs += size
            self.changed += changed
            self.changed_share = max(self.changed_share, share)


@dataclass(frozen=True, eq=False)
class ComparisonJob:
    """Compares a quantized graph between ONNX Runtime and the executor.

    Attributes:
        graph: The graph.
        arithmetic: Arithmetic of the executor.
        optimize: Run ONNX Runtime with graph optimizations.
        run: How the job runs.
    """

    graph: Graph
    arithmetic: str
    optimize: bool
    run: RunOptions

    def open(self) -> Callable[[Part], Compared]:
        """Load the graph in both."""
        return TensorComparison(self).run_part


class TensorComparison:
    """A quantized graph, loaded in both.

    Attributes:
        executor: The executor.
        producers: The name and the operator of the node that computes each compared tensor.
        not_compared: Number of integer tensors that float operators compute.
    """

    def __init__(self, job: ComparisonJob) -> None:
        """Load the graph.

        Raises:
            ModelError: The graph has no integer tensor.
        """
        graph, arithmetic, optimize = job.graph, job.arithmetic, job.optimize
        level = "all" if optimize else "none"
        executor = Executor(graph, arithmetic)
        exposed_graph, float_names = graph.copy(), frozenset[str]()
        self._shifted = frozenset[str]()
        if optimize:
            exposed_graph, self._shifted = shift_pairs_to_uint8(graph)
            executor, float_names = with_integer_products(executor, graph)
        exposed_graph.add_outputs(find_comparable_tensors(executor.program, graph))
        if optimize and (further := find_tensors_from_float(exposed_graph)):
            executor = Executor(graph, arithmetic, float_names | further)
        self._compared = find_comparable_tensors(executor.program, graph)
        if self._compared.isdisjoint(executor.program.params):
            raise ModelError("the model has no integer tensor; quantize it first")
        self.executor = executor
        self.producers: Mapping[str, tuple[str, str]] = {
            name: (step.name, step.op)
            for step in executor.program.steps
            if isinstance(step, Step)
            for name in step.outputs
            if name in self._compared
        }
        self._plain = Session(graph, threads=job.run.threads, optimize=level)
        self._exposed = Session(exposed_graph, threads=job.run.threads, optimize=level)
        self._outputs = [get_name(v) for v in graph.outputs]
        self._borders = self._compared - self.producers.keys()
        self.not_compared = len(self._borders)

    def run_part(self, part: Part) -> Compared:
        """Compare on some samples.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        wanted = list(dict.fromkeys([*self._outputs, *self.producers, *self._borders]))
        found = Compared({name: TensorTally() for name in self.producers})
        for sample in part.samples:
            found.samples += 1
            with name_sample(sample.name):
                theirs = dict(zip(wanted, self._exposed.run(sample.feed, wanted), strict=True))
                shifted = self._shifted & theirs.keys()
                theirs.update({name: to_int8(theirs[name]) for name in shifted})
                plain_outputs = self._plain.run(sample.feed, self._outputs)
            for name, array in zip(self._outputs, plain_outputs, strict=True):
                known = found.changed
                found.add_change(array, theirs[name])
                if found.changed > known:
                    found.changed_names.add(name)
            given = [{n: theirs[n] for n in names} for names in (self._borders, self._compared)]
            run = partial(self.executor.run, sample.feed, self.producers)
            ours, local = map_in_parallel(run, given)
            for name, tally in found.tallies.items():
                tally.add(theirs[name], ours[name], local[name])
        return found


def _measure_change(plain: Any, exposed: Any) -> tuple[int, int, float]:
    """The values of an array, how many bits of another differ from them, and the largest difference as a share."""
    if not (isinstance(plain, np.ndarray) and isinstance(exposed, np.ndarray)):
        return 1, 1, 1.0
    if plain.shape != exposed.shape or plain.dtype != exposed.dtype:
        return plain.size, max(plain.size, 1), 1.0
    if plain.tobytes() == exposed.tobytes():
        return plain.size, 0, 0.0
    if plain.dtype.kind not in "fiu":
        count = int(np.count_nonzero(plain != exposed))
        return plain.size, count, 1.0 if count else 0.0
    wide, read = plain.astype(np.float64), exposed.astype(np.float64)
    differs = (wide != read) & ~(np.isnan(wide) & np.isnan(read))
    apart = np.abs(np.subtract(wide, read, out=np.zeros_like(wide), where=differs))
    largest = float(np.max(np.abs(plain), initial=0, where=np.isfinite(plain)))
    share = float(apart.max()) / largest if largest and np.isfinite(apart).all() else 1.0
    # NaN, and zeros of another sign, have other bits too
    return plain.size, max(int(np.count_nonzero(apart)), 1), share
