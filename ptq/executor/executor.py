"""Runs a quantized graph in integers, step by step; no tensor between steps is real.

Kernels come from an arithmetic (``ptq.executor.arithmetics``). What the arithmetic, or ONNX Runtime by its own rules,
computes in float is an island: on one 8-bit input and one value at a time it is a table of 256 entries made by
running it once, any other runs in ONNX Runtime, integers in and integers out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UnsupportedError
from ptq.core.ops import OPS
from ptq.core.opspec import Layout, Role
from ptq.core.types import QuantParams
from ptq.executor.arithmetics import INT8_AS_UINT8, kernels_of_arithmetic
from ptq.executor.arithmetics.node_site import Kernel, KernelMaker, Site
from ptq.executor.batch_parallel import BatchSegments, Feed, Segment
from ptq.executor.float_islands import FloatIsland
from ptq.executor.layout import (
    Tensor,
    attrs_channels_last,
    concat_batch,
    weight_channels_last,
    weight_qparams_channels_last,
)
from ptq.executor.liveness import split_inputs, tensors_to_release
from ptq.executor.lookup_tables import find_table_islands
from ptq.executor.program import Program, Step, read_program
from ptq.executor.row_independence import Shape
from ptq.kernels.thread_pool import parallel_map, thread_count
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS
from ptq.model.session import Session
from ptq.rewrite.imported.int8_pairs_to_uint8 import pairs_to_uint8, to_int8, to_uint8
from ptq.rewrite.imported.normalize_qdq import normalize_qdq

Runner = Callable[[Sequence[Tensor | None]], list[Tensor]]


class Executor:
    """A quantized graph ready to run in integers.

    Attributes:
        arithmetic: Name of its arithmetic.
        islands: The steps computed in float, by name, with their operators.
        tables: Those of the islands that are tables.
    """

    def __init__(
        self,
        graph: Graph,
        arithmetic_name: str = "ort",
        floats: Collection[str] = (),
        replaced: Mapping[str, KernelMaker] | None = None,
    ) -> None:
        """Read the graph; kernels are prepared when they first run.

        Args:
            graph: QDQ, QOperator, or a mixture, made by any tool.
            arithmetic_name: The arithmetic.
            floats: Integer tensors, and real results of products of them, that shall be computed in float.
            replaced: Kernels to run in the place of the arithmetic's own, by operator.

        Raises:
            UsageError: There is no such arithmetic.
        """
        self.arithmetic = arithmetic_name
        self._kernels = {**kernels_of_arithmetic(arithmetic_name), **(replaced or {})}
        runs = self._kernels.__contains__
        read, self._uint8_tensors = normalize_qdq(graph), frozenset[str]()
        if arithmetic_name in INT8_AS_UINT8:
            read, self._uint8_tensors = pairs_to_uint8(read)
        self.program: Program = read_program(read, runs, floats)
        self._runners: list[dict[tuple[Any, ...], Runner]] = [{} for _ in self.program.steps]
        self._prepare_lock = Lock()
        self._tensors_to_release = tensors_to_release(self.program)
        self._constants = {n: Tensor(a) for n, a in self.program.constants.items()}
        self._step_inputs = [split_inputs(s, self._constants) for s in self.program.steps]
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
            feed: The graph's inputs by name.
            taps: Further tensors to return: integers by their names in the graph.
            given: Tensors to take instead of computing them, by name.

        Returns:
            The graph's outputs and the taps by name, in ONNX's layout.

        Raises:
            DataError: An input is missing.
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
        # a kernel put in another's place may look at more than a row
        plain = not (taps or given or self._has_custom_kernels)
        stretches = self._batch_segments.find_segments(feed) if plain else None
        if stretches is None:
            shapes: dict[str, Shape] = {}
            kept = self._run_steps(tensors, range(len(self.program.steps)), wanted, given, shapes)
            if plain:
                self._batch_segments.learn_shapes(feed, shapes)
        else:
            kept = {}
            for stretch in stretches:
                if (pieces := stretch.split_batch()) and stretch.is_valid_for(tensors):
                    self._run_in_pieces(tensors, stretch, pieces)
                else:
                    self._run_steps(tensors, stretch.steps)
        for name in wanted - kept.keys():
            kept[name] = self._find_tensor(tensors, name).to_channels_first()
        return {n: to_int8(a) if n in self._uint8_tensors else a for n, a in kept.items()}

    def _run_in_pieces(
        self, tensors: dict[str, Tensor], stretch: Segment, pieces: Sequence[slice]
    ) -> None:
        def piece(rows: slice) -> list[Tensor]:
            own = {name: tensors[name].slice_batch(rows) for name in stretch.input_shapes}
            self._run_steps(own, stretch.steps)
            return [own[name] for name in stretch.outputs]

        parts = parallel_map(piece, pieces)
        for position, name in enumerate(stretch.outputs):
            tensors[name] = concat_batch([part[position] for part in parts])
        for name in (name for index in stretch.steps for name in self._tensors_to_release[index]):
            tensors.pop(name, None)

    def _run_steps(
        self,
        tensors: dict[str, Tensor],
        steps: range,
        wanted: Collection[str] = (),
        given: Feed | None = None,
        shapes: dict[str, Shape] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Run some steps; return what is wanted of their results, and note all shapes in ``shapes``."""
        kept: dict[str, NDArray[Any]] = {}
        for index in steps:
            step = self.program.steps[index]
            constants, arriving = self._step_inputs[index]
            inputs = [*constants]
            for position, name in arriving:
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
                f"tensor {name} is computed by no step; the graph is not quantized whole"
            )
        return found

    def _runner_for(
        self, index: int, step: Step | FloatIsland, inputs: list[Tensor | None]
    ) -> Runner:
        situation = tuple(
            [None if t is None else (t.is_channels_last, t.array.ndim) for t in inputs]
        )
        found = self._runners[index].get(situation)
        if found is None:
            with self._prepare_lock:  # runs side by side prepare it once
                found = self._runners[index].get(situation) or self._prepare(step, inputs)
                self._runners[index][situation] = found
        return found

    def _prepare_island(self, island: FloatIsland) -> Runner:
        if island.name in self.table_islands:
            return _table_runner(island, self.program.params[island.inputs[0]])
        # threads that wait busily between runs would take the cores from the kernels
        session = Session(island.graph, threads=thread_count(), spin=False, fused=False)

        def run(inputs: Sequence[Tensor | None]) -> list[Tensor]:
            arrays = [t.to_channels_first() for t in inputs if t is not None]
            feed = dict(zip(island.inputs, arrays, strict=True))
            return [Tensor(a) for a in session.run(feed, island.outputs)]

        return run

    def _prepare(self, step: Step | FloatIsland, inputs: list[Tensor | None]) -> Runner:
        if isinstance(step, FloatIsland):
            return self._prepare_island(step)
        spec = OPS.get(step.op)
        layout = spec.layout if spec is not None else Layout.FOLLOWS
        first_rank = max((t.array.ndim for t in inputs if t is not None), default=0)
        if layout is Layout.FOLLOWS:
            # a tensor of higher rank than one with its channels moved aligns with other axes
            ranks = [t.array.ndim for t in inputs if t is not None and t.is_channels_last]
            last = bool(ranks) and max(ranks) == first_rank and not self._has_axis(step)
        else:
            last = layout is Layout.SPATIAL and first_rank > 2
        attrs = dict(step.attrs)
        if last and layout is Layout.FOLLOWS:
            attrs = attrs_channels_last(step.op, attrs, first_rank)
        maker: KernelMaker | None = self._kernels.get(step.op)
        if maker is None:
            raise UnsupportedError(
                f"{step.op} {step.name} has no kernel in the {self.arithmetic} arithmetic"
            )

        def orientation(position: int) -> Callable[[Tensor], NDArray[Any]]:
            role = Role.KEEP if spec is None else spec.role_of(position)
            if role in (Role.BIAS, Role.VALUE):
                return lambda tensor: tensor.array
            if not last or (spec is not None and role is Role.KEEP):
                return Tensor.to_channels_first
            if role is Role.WEIGHT:
                group = int(attrs.get("group", 1))
                return lambda tensor: weight_channels_last(step.op, tensor.array, group)
            return lambda tensor: tensor.to_channels_last(first_rank)

        fixed = {
            i: orientation(i)(t)
            for i, (n, t) in enumerate(zip(step.inputs, inputs, strict=True))
            if n in self.program.constants and t is not None
        }
        params = [None if n is None else self.program.params.get(n) for n in step.inputs]
        if layout is Layout.SPATIAL and len(params) > 1 and params[1] is not None:
            params[1] = weight_qparams_channels_last(step.op, params[1], int(attrs.get("group", 1)))
        constants = tuple(fixed.get(i) for i in range(len(inputs)))
        kernel = self._make_kernel(maker, step, attrs, tuple(params), constants)
        moving = [
            (i, orientation(i)) for i, t in enumerate(inputs) if t is not None and i not in fixed
        ]

        def run(arriving: Sequence[Tensor | None]) -> list[Tensor]:
            arrays = [*constants]
            for i, oriented in moving:
                tensor = arriving[i]
                assert tensor is not None
                arrays[i] = oriented(tensor)
            return [Tensor(np.asarray(kernel(arrays)), last)]

        return run

    def _has_axis(self, step: Step) -> bool:
        """Whether it is a quantizer with scales along an axis, which counts as ONNX lays tensors out."""
        around = (self.program.params.get(name or "") for name in (*step.inputs[:1], *step.outputs))
        return step.op in QUANTIZERS and any(p is not None and p.axis is not None for p in around)

    def _make_kernel(
        self,
        maker: KernelMaker,
        step: Step,
        attrs: Mapping[str, Any],
        params: tuple[QuantParams | None, ...],
        constants: tuple[NDArray[Any] | None, ...],
    ) -> Kernel:
        site = Site(
            op=step.op,
            name=step.name,
            attrs=attrs,
            inputs=params,
            outputs=params[:1]
            if step.keeps_integers
            else tuple(self.program.params.get(n) for n in step.outputs),
            constants=constants,
            output_index=step.output_index,
        )
        try:
            return maker(site)
        except UnsupportedError as error:
            raise UnsupportedError(f"{step.op} {step.name}: {error}") from error


def _table_runner(island: FloatIsland, params: QuantParams) -> Runner:
    info = np.iinfo(params.qtype.dtype)
    codes = np.arange(info.min, info.max + 1).astype(params.qtype.dtype)
    table = Session(island.graph.without_shapes(), optimize="none").run({island.inputs[0]: codes})[
        0
    ]
    # int8 codes read as uint8 run 0…127, -128…-1
    looked_up = np.roll(table.reshape(-1), int(info.min))

    def run(inputs: Sequence[Tensor | None]) -> list[Tensor]:
        tensor = inputs[0]
        assert tensor is not None
        return [Tensor(looked_up[tensor.array.view(np.uint8)], tensor.is_channels_last)]

    return run
