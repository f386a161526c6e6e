"""The time of one kernel alone, in float and on integers, without what only a kernel alone needs.

A convolution on integers has channels last, and one in float has blocks of channels. Alone, both have changes of
layout around them; between two of their kind there are none. These are timed apart and left out. Where a tensor
crosses from float to integers they take place: the unit of all times includes one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import collect_statistics
from ptq.core.errors import DataError, ModelError
from ptq.core.run_options import RunOptions
from ptq.core.types import FLOAT32
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.model.node import Node, get_dtype, get_name, get_operator, get_shape, is_constant
from ptq.model.session.session import Session
from ptq.rewrite.instrument.timing_graph import (
    build_block_graph,
    build_crossing_graph,
    build_empty_graph,
    build_layout_graph,
)
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.partition.cost_table import use_cost_table
from ptq.solver.partition.shipped_tables import get_shipped_table
from ptq.solver.quantizer import CalibratedModel, quantize_with
from ptq.solver.recipe import Recipe

_BLOCK_STEP = 4
"""Channels that ONNX Runtime moves at once into blocks; with others a convolution keeps channels first."""
_CHANNELS, _SIDE = 96, 56
"""The tensor whose crossing from float to integers gives the unit of all tables, by its time for one element."""
_SECONDS, _MIN_ROUNDS, _WARM_UP = 0.06, 15, 2
_MIN_SHARE = 0.2
"""The share of a time that must remain without changes of layout: less is the noise of two times."""
DIGITS = 4
"""Digits of a time in a table."""
Feed = dict[str, NDArray[Any]]


def time_kernel(
    graph: Graph, node: Node, overhead: float, unit: float, run: RunOptions
) -> tuple[float, float]:
    """The passes of a node in float and on integers.

    Raises:
        ModelError: It cannot be timed, or nearly all of its time alone are changes of layout.
    """
    inputs = list(
        dict.fromkeys(get_name(v) for v in node.inputs if v is not None and not is_constant(v))
    )
    alone = graph.extract([node], inputs, [get_name(v) for v in node.outputs])
    rng = np.random.default_rng(0)
    feed: Feed = {
        get_name(v): rng.standard_normal(_get_fixed_shape(v)).astype(np.float32)
        for v in alone.inputs
    }
    integers = _quantize_alone(alone, feed)
    other: Feed = {
        get_name(v): rng.integers(0, 255, _get_fixed_shape(v)).astype(np.uint8)
        if get_dtype(v) != FLOAT32
        else feed[get_name(v)]
        for v in integers.inputs
    }
    pairs = [
        (Session(alone, threads=run.threads), feed),
        (Session(integers, threads=run.threads), other),
    ]
    layouts = list_layout_changes(node)
    forms = []
    for form, graph in layouts:
        with suppress(ModelError):  # kernels of a domain that another version may not have
            pairs.append((Session(graph, threads=run.threads), _make_zeros(graph)))
            forms.append(form)
    taken = _time_in_turns(pairs)
    for form, seconds in zip(forms, taken[2:], strict=True):
        whole, taken[form] = taken[form], taken[form] - max(seconds - overhead, 0.0)
        if taken[form] - overhead < _MIN_SHARE * (whole - overhead):
            raise ModelError("nearly all of its time alone are changes of layout")
    call = get_shipped_table().kernel_call
    in_float, on_integers = (
        float(f"{max((seconds - overhead) / unit, call):.{DIGITS}g}") for seconds in taken[:2]
    )
    return in_float, on_integers


@cache
def find_channel_block() -> int:
    """Channels of a block of float convolutions on this processor: 16, or 8 with AVX but without AVX512."""
    half_full = build_block_graph(None, (1, 8, 1, 1), 16)
    try:
        Session(half_full, threads=1).run({"z": np.zeros((1, 16, 1, 1), np.float32)})
    except DataError:
        return 8
    return 16


def list_layout_changes(node: Node) -> list[tuple[int, Graph]]:
    """What ONNX Runtime does around a convolution alone, and not between two: in float (0) and on integers (1)."""
    before, after = _get_fixed_shape(node.inputs[0]), _get_fixed_shape(node.outputs[0])
    if get_operator(node) != "Conv" or len(before) != 4:
        return []
    changes = [(1, build_layout_graph(before, after))]
    block = find_channel_block()
    blocks = [shape if shape[1] >= block else None for shape in (before, after)]
    if after[1] >= block and after[1] % _BLOCK_STEP == before[1] % _BLOCK_STEP == 0:
        changes.append((0, build_block_graph(blocks[0], blocks[1], block)))
    return changes


def _make_zeros(graph: Graph) -> Feed:
    return {
        get_name(v): np.zeros(
            _get_fixed_shape(v), np.float32 if get_dtype(v) == FLOAT32 else np.uint8
        )
        for v in graph.inputs
    }


def _quantize_alone(alone: Graph, feed: Mapping[str, NDArray[Any]]) -> Graph:
    """The node on integers, from integers to integers where it has quantizers.

    Raises:
        ModelError: The node stays float.
    """
    with use_cost_table(replace(get_shipped_table(), small_model=math.inf)):
        prepared = prepare(alone)
        samples = SampleOptions().open(
            {n: a[None] if a.shape[:1] != (1,) else a for n, a in feed.items()}, alone
        )
        statistics = collect_statistics(prepared.graph, samples)
        model = CalibratedModel("kernel", alone, prepared, statistics)
        recipe = Recipe(method="minmax", rounding="nearest", correct_bias=False)
        made = quantize_with(model, recipe)
    if len(made.plan.floats) == len(prepared.graph.nodes):
        raise ModelError("; ".join(sorted(set(made.plan.floats.values()))))
    whole = made.quantized_graph
    first = [
        n
        for n in whole.nodes
        if get_operator(n) == "QuantizeLinear" and n.inputs[0] in whole.inputs
    ]
    last = {get_name(v): v.producer() for v in whole.outputs}
    ends = [n for n in last.values() if n is not None and get_operator(n) == "DequantizeLinear"]
    kept = [n for n in whole.nodes if n not in first and n not in ends]
    inputs = [get_name(n.outputs[0]) for n in first]
    inputs += [get_name(v) for v in whole.inputs if not any(n.inputs[0] is v for n in first)]
    outputs = [
        get_name(n.inputs[0]) if n in ends and n is not None and n.inputs[0] is not None else name
        for name, n in last.items()
    ]
    return whole.extract(kept, inputs, outputs)


def _get_fixed_shape(value: Any) -> tuple[int, ...]:
    return tuple(1 if side is None else side for side in get_shape(value) or ())


def measure_unit(run: RunOptions) -> tuple[float, float]:
    """Seconds of a call that computes nothing, and of a quantizer and its change of layout for one element."""
    shape = (1, _CHANNELS, _SIDE, _SIDE)
    pairs: list[tuple[Session, Feed]] = [
        (Session(build_empty_graph(), threads=run.threads), {"x": np.zeros(1, np.float32)}),
        (
            Session(build_crossing_graph(_CHANNELS, _SIDE), threads=run.threads),
            {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)},
        ),
    ]
    nothing, many = _time_in_turns(pairs)
    return nothing, max(many - nothing, 1e-12) / math.prod(shape)


def _time_in_turns(
    pairs: Sequence[tuple[Session, Mapping[str, NDArray[Any]]]],
) -> list[float]:
    """The least time of each session, which other work disturbs least; the sessions run in turns."""
    taken: list[list[float]] = [[] for _ in pairs]
    for session, feed in [*pairs] * _WARM_UP:
        session.run(feed)
    start = perf_counter()
    while len(taken[0]) < _MIN_ROUNDS or perf_counter() - start < _SECONDS:
        for times, (session, feed) in zip(taken, pairs, strict=True):
            before = perf_counter()
            session.run(feed)
            times.append(perf_counter() - before)
    return [min(times) for times in taken]
