"""Execution of a quantized graph in integers, step by step.

Kernels come from an arithmetic (`ptq.executor.arithmetics`). What the arithmetic, or ONNX Runtime by its own rules,
computes in float is a float island. No tensor between two steps is float.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UnsupportedError
from ptq.core.ops import QLINEAR_FORMS
from ptq.executor.arithmetics import get_arithmetic
from ptq.executor.arithmetics.node_site import KernelMaker
from ptq.executor.batch_parallel import BatchSegments, Feed, Segment
from ptq.executor.float_islands import FloatIsland
from ptq.executor.layout import Tensor, concat_batch
from ptq.executor.lookup_tables import find_table_islands
from ptq.executor.program import Program, Step
from ptq.executor.program_reader import read_program
from ptq.executor.row_independence import Shape
from ptq.executor.schedule import list_tensors_to_release
from ptq.executor.step_runner import Runner, prepare_island, prepare_step, prepare_table_island
from ptq.kernels.thread_pool import map_in_parallel
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.rewrite.imported.qlinear_to_qdq import convert_qlinear_to_qdq
from ptq.rewrite.shift_to_uint8 import shift_pairs, to_int8, to_uint8


class Executor:
    """A quantized graph that is ready to run in integers.

    Attributes:
        arithmetic: Name of its arithmetic.
        program: Its steps.
        islands: Operators of each float island, by the island's name.
        table_islands: Names of the float islands that are tables.
    """

    def __init__(
        self,
        graph: Graph,
        arithmetic_name: str = "ort",
        floats: Collection[str] = (),
        replaced: Mapping[str, KernelMaker] | None = None,
    ) -> None:
        """Read the graph. A kernel is prepared when it first runs.

        Args:
            graph: QDQ, QOperator, or a mixture, made by any tool.
            arithmetic_name: The arithmetic.
            floats: Names of tensors whose operators run in float islands: integer tensors, and float outputs of
                integer products.
            replaced: Kernel makers that replace those of the arithmetic, by operator.

        Raises:
            UsageError: The arithmetic is unknown.
        """
        self.arithmetic = arithmetic_name
        arithmetic = get_arithmetic(arithmetic_name)
        self._kernels = {**arithmetic.kernels, **(replaced or {})}
        self._wide_kernels = arithmetic.wide_kernels
        self._is_onnxruntime = arithmetic.is_onnxruntime
        has_kernel = self._kernels.__contains__
        read = normalize_qdq(_put_into_islands(graph, has_kernel))
        self._uint8_tensors = frozenset[str]()
        if arithmetic.computes_int8_as_uint8:
            self._uint8_tensors = shift_pairs(read)
        self.program: Program = read_program(read, has_kernel, floats, self._wide_kernels)
        self._runners: list[dict[tuple[Any, ...], Runner]] = [{} for _ in self.program.steps]
        self._prepare_lock = Lock()
        self._tensors_to_release = list_tensors_to_release(self.program.steps, self.program.outputs)
        self._constants = {n: Tensor(a) for n, a in self.program.constants.items()}
        self._step_inputs = [_split_inputs(s, self._constants) for s in self.program.steps]
        self.islands = {s.name: s.ops for s in self.program.steps if isinstance(s, FloatIsland)}
        self.table_islands = find_table_islands(self.program)
        self._has_custom_kernels = bool(replaced)
        self._batch_segments = BatchSegments(self.program, self.table_islands)

    def run(
        self,
        feed: Mapping[str, NDArray[Any]],
        taps: Collection[str] = (),
        given: Mapping[str, NDArray[Any]] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Run one feed.

        Args:
            feed: Arrays of the graph's inputs by name.
            taps: Names of integer tensors to return as well.
            given: Arrays that replace computed tensors, by name.

        Returns:
            The graph's outputs and the taps by name, channels first.

        Raises:
            DataError: The feed lacks an input.
            UnsupportedError: The arithmetic cannot express a node; the text names it.
        """
        missing = [name for name in self.program.inputs if name not in feed]
        if missing:
            raise DataError(f"the feed lacks input {missing[0]}")
        feed = {name: np.asarray(array) for name, array in feed.items()}
        tensors = {name: Tensor(array) for name, array in feed.items()}
        wanted = {*self.program.outputs, *taps}
        given = {
            n: to_uint8(a) if n in self._uint8_tensors else a for n, a in (given or {}).items()
        }
        # A custom kernel may read several rows of the batch at once.
        plain = not (taps or given or self._has_custom_kernels)
        segments = self._batch_segments.find_segments(feed) if plain else None
        if segments is None:
            shapes: dict[str, Shape] = {}
            kept = self._run_steps(tensors, range(len(self.program.steps)), wanted, given, shapes)
            if plain:
                self._batch_segments.learn_shapes(feed, shapes)
        else:
            kept = {}
            for segment in segments:
                if (pieces := segment.split_batch()) and segment.is_valid_for(tensors):
                    self._run_in_pieces(tensors, segment, pieces)
                else:
                    self._run_steps(tensors, segment.steps)
        for name in wanted - kept.keys():
            kept[name] = self._find_tensor(tensors, name).to_channels_first()
        return {n: to_int8(a) if n in self._uint8_tensors else a for n, a in kept.items()}

    def _run_in_pieces(
        self, tensors: dict[str, Tensor], segment: Segment, pieces: Sequence[slice]
    ) -> None:
        """Run a segment on each piece of the batch, on all threads, and write its outputs to ``tensors``."""

        def run_piece(rows: slice) -> list[Tensor]:
            own = {name: tensors[name].slice_batch(rows) for name in segment.input_shapes}
            self._run_steps(own, segment.steps)
            return [own[name] for name in segment.outputs]

        results = map_in_parallel(run_piece, pieces)
        for position, name in enumerate(segment.outputs):
            tensors[name] = concat_batch([outputs[position] for outputs in results])
        for name in (name for index in segment.steps for name in self._tensors_to_release[index]):
            tensors.pop(name, None)

    def _run_steps(
        self,
        tensors: dict[str, Tensor],
        steps: range,
        wanted: Collection[str] = (),
        given: Feed | None = None,
        shapes: dict[str, Shape] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Run some steps, which read and write ``tensors``.

        Args:
            tensors: Tensors by name; a tensor is removed after its last reader.
            steps: Positions of the steps.
            wanted: Names of tensors to return.
            given: Arrays that replace computed tensors, by name.
            shapes: Filled with the shape of every output, if it is not None.

        Returns:
            The wanted tensors that the steps computed, channels first.
        """
        kept: dict[str, NDArray[Any]] = {}
        for index in steps:
            step = self.program.steps[index]
            constants, computed = self._step_inputs[index]
            inputs = [*constants]
            for position, name in computed:
                inputs[position] = self._find_tensor(tensors, name)
            results = self._runner_for(index, step, inputs)(inputs)
            for name, result in zip(step.outputs, results, strict=True):
                if name in wanted:
                    kept[name] = result.to_channels_first()
                tensors[name] = Tensor(given[name]) if given and name in given else result
                if shapes is not None:
                    shapes[name] = result.shape
            for name in self._tensors_to_release[index]:
                tensors.pop(name, None)
        return kept

    def _find_tensor(self, tensors: Mapping[str, Tensor], name: str) -> Tensor:
        found = tensors.get(name) or self._constants.get(name)
        if found is None:
            raise UnsupportedError(
                f"tensor {name} has no producer among the integer steps: the graph is only partly quantized"
            )
        return found

    def _runner_for(
        self, index: int, step: Step | FloatIsland, inputs: list[Tensor | None]
    ) -> Runner:
        """Return what runs a step on inputs of these ranks and layouts; prepare it at the first call."""
        key = tuple([None if t is None else (t.is_channels_last, t.array.ndim) for t in inputs])
        runners = self._runners[index]
        found = runners.get(key)
        if found is None:
            # Several threads may ask for one step at once; it is prepared once.
            with self._prepare_lock:
                found = runners.get(key) or self._prepare(step, inputs)
                runners[key] = found
        return found

    def _prepare(self, step: Step | FloatIsland, inputs: list[Tensor | None]) -> Runner:
        if isinstance(step, FloatIsland):
            if step.name in self.table_islands:
                return prepare_table_island(step, self.program.params[step.inputs[0]])
            return prepare_island(step, moves_transposes=self._is_onnxruntime)
        maker = (self._kernels if step.bits == 8 else self._wide_kernels).get(step.op)
        if maker is None:
            raise UnsupportedError(
                f"{step.op} {step.name} has no kernel in the {self.arithmetic} arithmetic"
            )
        return prepare_step(step, inputs, self.program, maker)


def _put_into_islands(graph: Graph, has_kernel: Callable[[str], bool]) -> Graph:
    """The graph with quantizers around each QLinear operator that has no kernel: it is computed in float."""
    lacking = {op for op, (spec, _) in QLINEAR_FORMS.items() if not has_kernel(spec.op)}
    if lacking.isdisjoint(map(get_operator, graph.nodes)):
        return graph
    return convert_qlinear_to_qdq(graph, partly=True, only=lacking)


def _split_inputs(
    step: Step | FloatIsland, constants: Mapping[str, Tensor]
) -> tuple[list[Tensor | None], list[tuple[int, str]]]:
    """Return the constant inputs at their positions, and positions and names of the computed inputs."""
    computed = [(i, n) for i, n in enumerate(step.inputs) if n is not None and n not in constants]
    return [None if n is None else constants.get(n) for n in step.inputs], computed
