"""Preparation of one step: its constants in the kernel's layout, its kernel, and what runs it.

A step gets its kernel from an arithmetic (`ptq.executor.arithmetics`). A float island runs in ONNX Runtime, or is
a table: a function of one 8-bit value that is run once on all 256 values (`ptq.executor.lookup_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.executor.arithmetics.node_site import Kernel, KernelMaker, Site
from ptq.executor.float_islands import FloatIsland
from ptq.executor.layout import Tensor
from ptq.executor.program import Program, Step
from ptq.executor.step_layout import StepLayout, choose_layout
from ptq.kernels.thread_pool import get_thread_count
from ptq.model.graph import Graph
from ptq.model.node import list_named_values
from ptq.model.session.session import Session
from ptq.rewrite.prepare.evaluate_node import is_repeatable

Runner = Callable[[Sequence[Tensor | None]], list[Tensor]]
"""Runs one step: all its inputs by position (None if absent) to its outputs."""


def prepare_step(
    step: Step, inputs: Sequence[Tensor | None], program: Program, maker: KernelMaker
) -> Runner:
    """Prepare a step for inputs of these ranks and layouts.

    Args:
        step: One of the program's.
        inputs: Its inputs. The values of constants count, of the other inputs only rank and layout.
        program: The program, for its constants and parameters.
        maker: Makes the kernel.

    Raises:
        UnsupportedError: The arithmetic cannot express the step; the text names the node.
    """
    layout = choose_layout(step, inputs, program.params)
    constants: list[NDArray[Any] | None] = [None] * len(inputs)
    converters: list[tuple[int, Callable[[Tensor], NDArray[Any]]]] = []
    for i, (name, tensor) in enumerate(zip(step.inputs, inputs, strict=True)):
        if tensor is not None and name in program.constants:
            constants[i] = layout.converter(i)(tensor)
        elif tensor is not None:
            converters.append((i, layout.converter(i)))
    kernel = _make_kernel(maker, layout, program.params, tuple(constants))

    def run(tensors: Sequence[Tensor | None]) -> list[Tensor]:
        arrays = [*constants]
        for i, convert in converters:
            tensor = tensors[i]
            assert tensor is not None
            arrays[i] = convert(tensor)
        return [Tensor(np.asarray(kernel(arrays)), layout.is_channels_last)]

    return run


def _make_kernel(
    maker: KernelMaker,
    layout: StepLayout,
    params: Mapping[str, QuantParams],
    constants: tuple[NDArray[Any] | None, ...],
) -> Kernel:
    step, inputs = layout.step, layout.input_qparams(params)
    site = Site(
        op=step.op,
        name=step.name,
        attrs=layout.attrs,
        inputs=inputs,
        outputs=inputs[:1] if step.keeps_integers else tuple(params.get(n) for n in step.outputs),
        constants=constants,
        output_index=step.output_index,
        bits=step.bits,
    )
    try:
        return maker(site)
    except UnsupportedError as error:
        raise UnsupportedError(f"{step.op} {step.name}: {error}") from error


def prepare_island(island: FloatIsland, *, moves_transposes: bool) -> Runner:
    """Prepare a float island that ONNX Runtime runs; one with constant results runs once.

    Args:
        island: The island.
        moves_transposes: Whether ONNX Runtime may move transpositions, as a session of the whole graph does, and so
            round float outputs.
    """
    # Threads of a session that spin between runs would take the processors from the kernels.
    session = Session.for_float_island(
        island.graph, threads=get_thread_count(), moves=moves_transposes
    )
    if not island.inputs and all(map(is_repeatable, island.graph.nodes)):
        constants = [Tensor(a) for a in session.run({}, island.outputs)]
        return lambda tensors: [*constants]

    def run(tensors: Sequence[Tensor | None]) -> list[Tensor]:
        # a kernel may return a number for a tensor without axes
        arrays = [np.asarray(t.to_channels_first()) for t in tensors if t is not None]
        feed = dict(zip(island.inputs, arrays, strict=True))
        return [Tensor(a) for a in session.run(feed, island.outputs)]

    return run


def prepare_table_island(island: FloatIsland, params: QuantParams) -> Runner:
    """Prepare a float island that is a table: ONNX Runtime runs it once, on every value of its input.

    Args:
        island: One of `ptq.executor.lookup_tables.find_table_islands`.
        params: Parameters of its input, of 8 bits.
    """
    info = np.iinfo(params.qtype.dtype)
    codes = np.arange(info.min, info.max + 1).astype(params.qtype.dtype)
    session = Session(_without_shapes(island.graph), optimize="none")
    values = session.run({island.inputs[0]: codes})[0].reshape(-1)
    # int8 values read as uint8 run 0 … 127, −128 … −1.
    table = np.roll(values, int(info.min))

    def run(tensors: Sequence[Tensor | None]) -> list[Tensor]:
        tensor = tensors[0]
        assert tensor is not None
        return [Tensor(table[tensor.array.view(np.uint8)], tensor.is_channels_last)]

    return run


def _without_shapes(graph: Graph) -> Graph:
    """A copy without the shapes of tensors, for feeds of other shapes."""
    copy = graph.copy()
    for value in (v for v in list_named_values(copy.model.graph) if not v.is_initializer()):
        value.shape = None
    return copy
