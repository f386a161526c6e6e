"""`ptq.tune`: times each kernel of a model on this machine, in float and on integers, and makes a table of times.

table = ptq.tune("model.onnx")
table.save("cost-table.json")  # of this model; ptq.tune() alone times common kernels
ptq.quantize("model.onnx", "images/", cost_table="cost-table.json")
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import collect_statistics
from ptq.core.errors import ModelError, PtqError, UsageError
from ptq.core.ops import OPS
from ptq.core.option_checks import refuse_unknown_options, require_number
from ptq.core.run_options import Progress, RunOptions
from ptq.core.targets import get_target
from ptq.core.types import FLOAT32
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.model.node import Node, dtype_of, is_constant, name_of, operator_of, shape_of, spec_name
from ptq.model.open import Model
from ptq.model.ort_version import ORT_VERSION
from ptq.model.session import Session
from ptq.optimization.provenance import describe_processor
from ptq.rewrite.instrument.kernel_grid import build_kernel_grid
from ptq.rewrite.instrument.timing_graph import build_quantizer_graph
from ptq.rewrite.prepare.prepare import open_and_prepare, prepare
from ptq.solver.partition.cost_model import VIEWS, estimate_cost, estimate_sizes
from ptq.solver.partition.cost_table import (
    ORT_1_31_AVX512_VNNI,
    OrtCostTable,
    use_cost_table,
)
from ptq.solver.partition.cost_table_file import save_cost_table
from ptq.solver.partition.kernel_key import kernel_key, kernel_kind
from ptq.solver.quantizer import CalibratedModel, apply_plan, solve_plan
from ptq.solver.recipe import Recipe

_QUANTIZED_ELEMENTS = 2**18
"""Elements of the quantizer whose time for one element is the unit of all tables."""
_SECONDS, _MIN_ROUNDS, _WARM_UP = 0.06, 15, 2
_DIGITS = 4
_MIN_OF_KIND, _LARGEST_FACTOR = 3, 20.0
GRID_SECONDS = 60.0
"""Time after which no further kernel of the standard grid is started; the 82 kernels take about 20 s."""
Feed = dict[str, NDArray[Any]]
_BASE = ORT_1_31_AVX512_VNNI


@dataclass(frozen=True, eq=False)
class Tuned:
    """A table of times of this machine.

    Attributes:
        table: The table; what was not timed is as in the shipped table, scaled by what was.
        timed: Number of kernels that were timed.
        left_out: Kernels that could not be timed, each with the reason.
    """

    table: OrtCostTable
    timed: int
    left_out: tuple[tuple[str, str], ...]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table, for ``cost_table`` of ``ptq.quantize``.

        Raises:
            PtqError: The file cannot be written.
        """
        save_cost_table(self.table, path)


@refuse_unknown_options
def tune(
    models: Model | Sequence[Model] | None = None,
    *,
    seconds: float | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Tuned:
    """Time each kernel of one or more float models that target ``ort`` computes on integers.

    Kernels with equal operator, attributes and shapes are timed once. Kernels whose shapes vary are left out. The
    estimates of all other kernels are scaled by the median of the timed ones of their kind.

    Args:
        models: A float model, or several; None for a standard grid of common kernels.
        seconds: Start no further kernel after that time; by default there is no limit for models, and
            `GRID_SECONDS` for the grid.
        threads: Threads of ONNX Runtime for one operator; 0 is one for each core.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: A model cannot be read or prepared.
        UsageError: No kernel of the models can be timed.
    """
    run = RunOptions(threads=threads, progress=progress)
    if seconds is not None:
        seconds = require_number("seconds", seconds, least=0)
    nodes = _collect_kernels(models)
    limit = seconds if models is not None or seconds is not None else GRID_SECONDS
    start = perf_counter()
    overhead, unit = _measure_unit(run)
    advance = run.start_stage("timing kernels", len(nodes))
    kernels: dict[str, tuple[float, float]] = {}
    left_out: list[tuple[str, str]] = []
    for key, (graph, node) in nodes.items():
        if limit is not None and perf_counter() - start > limit and kernels:
            left_out.append((key, f"the {limit:g} seconds had passed"))
            advance()
            continue
        try:
            kernels[key] = _time_kernel(graph, node, overhead, unit, run)
        except PtqError as error:  # a kernel that ONNX Runtime lacks, or a shape that it refuses
            left_out.append((key, str(error)))
        advance()
    advance.end()
    if not kernels:
        raise UsageError(
            "no kernel of the model can be timed: its shapes vary, or nothing of it becomes int8"
        )
    kind = describe_processor()
    table = replace(
        _BASE,
        name="tuned",
        version=ORT_VERSION,
        processor=f"{kind['machine']}{', exact int8 sums' if kind['exact_int8_sums'] else ''}",
        threads=max(threads, 1),
        kernels=kernels,
        scales=fit_scales(nodes, kernels),
    )
    return Tuned(table, len(kernels), tuple(left_out))


def _collect_kernels(
    models: Model | Sequence[Model] | None,
) -> dict[str, tuple[Graph, Node]]:
    """The kernels to time, by their keys."""
    nodes: dict[str, tuple[Graph, Node]] = {}
    if models is None:
        graphs = build_kernel_grid()
    else:
        given: list[Any] = list(models) if isinstance(models, list | tuple) else [models]
        graphs = [open_and_prepare(model)[1].graph for model in given]
    for graph in graphs:
        for key, node in _list_kernels(graph):
            nodes.setdefault(key, (graph, node))
    return nodes


def fit_scales(
    nodes: Mapping[str, tuple[Graph, Node]], kernels: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Factors of the shipped estimates by kind of kernel: the median of what was timed over what was estimated.

    Args:
        nodes: The nodes by key.
        kernels: Passes in float and on integers of those that were timed.

    Returns:
        The factors of kinds of which at least `_MIN_OF_KIND` kernels were timed.
    """
    ratios: dict[str, list[tuple[float, float]]] = {}
    for key, (in_float, on_integers) in kernels.items():
        graph, node = nodes[key]
        own = estimate_cost(node, OPS[spec_name(node)], estimate_sizes(graph), _BASE)
        if own.float_cost > 0 and own.integer_cost > 0:
            pair = in_float / own.float_cost, on_integers / own.integer_cost
            ratios.setdefault(kernel_kind(node), []).append(pair)
    return {
        kind: (_median_factor([a for a, _ in pairs]), _median_factor([b for _, b in pairs]))
        for kind, pairs in sorted(ratios.items())
        if len(pairs) >= _MIN_OF_KIND
    }


def _median_factor(ratios: Sequence[float]) -> float:
    factor = float(np.clip(np.median(ratios), 1 / _LARGEST_FACTOR, _LARGEST_FACTOR))
    return float(f"{factor:.{_DIGITS}g}")


def _list_kernels(graph: Graph) -> Iterator[tuple[str, Node]]:
    """The nodes that may become integers, with their keys."""
    target = get_target("ort")
    for node in graph.nodes:
        spec = OPS.get(spec_name(node))
        if spec is None or operator_of(node) in VIEWS or not target.can_quantize(spec):
            continue
        key = kernel_key(node)
        values = [v for v in (*node.inputs, *node.outputs) if v is not None and not is_constant(v)]
        if key is not None and all(dtype_of(v) == FLOAT32 for v in values):
            yield key, node


def _time_kernel(
    graph: Graph, node: Node, overhead: float, unit: float, run: RunOptions
) -> tuple[float, float]:
    """The passes of a node in float and on integers."""
    inputs = list(
        dict.fromkeys(name_of(v) for v in node.inputs if v is not None and not is_constant(v))
    )
    alone = graph.extract([node], inputs, [name_of(v) for v in node.outputs])
    rng = np.random.default_rng(0)
    feed: Feed = {
        name_of(v): rng.standard_normal(_shape(v)).astype(np.float32) for v in alone.inputs
    }
    integers = _quantize_alone(alone, feed)
    other: Feed = {
        name_of(v): rng.integers(0, 255, _shape(v)).astype(np.uint8)
        if dtype_of(v) != FLOAT32
        else feed[name_of(v)]
        for v in integers.inputs
    }
    pairs = [
        (Session(alone, threads=run.threads), feed),
        (Session(integers, threads=run.threads), other),
    ]
    in_float, on_integers = _time_in_turns(pairs)
    call = _BASE.kernel_call
    return tuple(  # type: ignore[return-value]
        float(f"{max((seconds - overhead) / unit, call):.{_DIGITS}g}")
        for seconds in (in_float, on_integers)
    )


def _quantize_alone(alone: Graph, feed: Mapping[str, NDArray[Any]]) -> Graph:
    """The node on integers, from integers to integers where it has quantizers.

    Raises:
        ModelError: The node stays float.
    """
    with use_cost_table(replace(_BASE, small_model=math.inf)):
        prepared = prepare(alone)
        samples = SampleOptions().open(
            {n: a[None] if a.shape[:1] != (1,) else a for n, a in feed.items()}, alone
        )
        statistics = collect_statistics(prepared.graph, samples)
        model = CalibratedModel("kernel", alone, prepared, statistics)
        recipe = Recipe(method="minmax", rounding="nearest", correct_bias=False)
        made = apply_plan(model, recipe, solve_plan(model, recipe))
    if len(made.plan.floats) == len(prepared.graph.nodes):
        raise ModelError("; ".join(sorted(set(made.plan.floats.values()))))
    whole = made.quantized_graph
    first = [
        n for n in whole.nodes if operator_of(n) == "QuantizeLinear" and n.inputs[0] in whole.inputs
    ]
    last = {name_of(v): v.producer() for v in whole.outputs}
    ends = [n for n in last.values() if n is not None and operator_of(n) == "DequantizeLinear"]
    kept = [n for n in whole.nodes if n not in first and n not in ends]
    inputs = [name_of(n.outputs[0]) for n in first]
    inputs += [name_of(v) for v in whole.inputs if not any(n.inputs[0] is v for n in first)]
    outputs = [
        name_of(n.inputs[0]) if n in ends and n is not None and n.inputs[0] is not None else name
        for name, n in last.items()
    ]
    return whole.extract(kept, inputs, outputs)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(1 if side is None else side for side in shape_of(value) or ())


def _measure_unit(run: RunOptions) -> tuple[float, float]:
    """Seconds of a call that computes nothing, and of a quantizer for one element."""

    def build(size: int) -> tuple[Session, Feed]:
        session = Session(build_quantizer_graph(size), threads=run.threads)
        return session, {"x": np.zeros(size, np.float32)}

    nothing, many = _time_in_turns([build(1), build(_QUANTIZED_ELEMENTS)])
    return nothing, max(many - nothing, 1e-12) / _QUANTIZED_ELEMENTS


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
