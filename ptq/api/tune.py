"""`ptq.tune`: times each kernel of a model on this machine, in float and on integers, and makes a table of times.

table = ptq.tune("model.onnx")
table.save("cost-table.json")  # of this model; ptq.tune() alone times common kernels
ptq.quantize("model.onnx", "images/", cost_table="cost-table.json")
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from ptq.api.kernel_times import DIGITS, measure_unit, time_kernel
from ptq.api.provenance import describe_processor
from ptq.core.errors import PtqError, UsageError
from ptq.core.ops import OPS
from ptq.core.option_checks import refuse_unknown_options, require_number
from ptq.core.run_options import Progress, RunOptions
from ptq.core.targets import get_target
from ptq.core.types import FLOAT32
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import ORT_VERSION
from ptq.model.node import Node, get_dtype, get_operator, get_spec, get_spec_name, is_constant
from ptq.model.open import Model
from ptq.rewrite.instrument.kernel_grid import build_kernel_grid
from ptq.rewrite.prepare.prepare import open_and_prepare
from ptq.solver.partition.cost_model import VIEWS, estimate_cost, estimate_sizes
from ptq.solver.partition.cost_table import OrtCostTable
from ptq.solver.partition.cost_table_file import save_cost_table
from ptq.solver.partition.kernel_key import build_kernel_key, get_kernel_kind
from ptq.solver.partition.shipped_tables import get_shipped_table

_MIN_OF_KIND, _LARGEST_FACTOR = 3, 20.0
_LEAST_CALLS = 4
"""How many times as long as a call a kernel must take in both forms to tell anything of larger ones. In a text-line
classifier, layers of one pixel made integers look twice as fast as they are in all pointwise layers."""
GRID_SECONDS = 60.0
"""Time after which no further kernel of the standard grid is started; the 78 kernels take about 20 s."""
LATE = "the time limit had passed"
"""Why a kernel was not timed for which no time was left."""


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
@use_given_threads
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
            60 s for the grid.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: A model cannot be read or prepared.
        UsageError: No kernel of the models can be timed.
        Cancelled: The progress callback returned False or raised an exception.
    """
    run = RunOptions(threads=threads, progress=progress)
    if seconds is not None:
        seconds = require_number("seconds", seconds, least=0)
    nodes = _collect_kernels(models)
    limit = seconds if models is not None or seconds is not None else GRID_SECONDS
    start = perf_counter()
    overhead, unit = measure_unit(run)
    advance = run.start_stage("timing kernels", len(nodes))
    kernels: dict[str, tuple[float, float]] = {}
    left_out: list[tuple[str, str]] = []
    for key, (graph, node) in nodes.items():
        if limit is not None and perf_counter() - start > limit and kernels:
            left_out.append((key, LATE))
            advance()
            continue
        try:
            kernels[key] = time_kernel(graph, node, overhead, unit, run)
        except PtqError as error:  # a kernel that ONNX Runtime lacks, or a shape that it refuses
            left_out.append((key, str(error)))
        advance()
    advance.end()
    if not kernels:
        raise UsageError(
            "no kernel of the model can be timed: its shapes vary, or nothing of it becomes int8"
        )
    kind, base = describe_processor(), get_shipped_table()
    table = replace(
        base,
        name="tuned",
        version=ORT_VERSION,
        processor=f"{kind['machine']}{', exact int8 sums' if kind['exact_int8_sums'] else ''}",
        threads=max(threads, 1),
        kernels=kernels,
        scales={**base.scales, **fit_scales(nodes, kernels, base)},
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
    nodes: Mapping[str, tuple[Graph, Node]],
    kernels: Mapping[str, tuple[float, float]],
    base: OrtCostTable,
) -> dict[str, tuple[float, float]]:
    """Factors of the formulas by kind of kernel: the median of what was timed over what a formula gives.

    Args:
        nodes: The nodes by key.
        kernels: Passes in float and on integers of those that were timed.
        base: The shipped table, whose formulas are scaled.

    Returns:
        The factors of kinds of which at least `_MIN_OF_KIND` kernels were timed that take longer than calls.
    """
    ratios: dict[str, list[tuple[float, float]]] = {}
    for key, (in_float, on_integers) in kernels.items():
        if min(in_float, on_integers) < _LEAST_CALLS * base.kernel_call:
            continue
        graph, node = nodes[key]
        own = estimate_cost(node, OPS[get_spec_name(node)], estimate_sizes(graph), base)
        if own.float_cost > 0 and own.integer_cost > 0:
            pair = in_float / own.float_cost, on_integers / own.integer_cost
            ratios.setdefault(get_kernel_kind(node), []).append(pair)
    return {
        kind: (_compute_factor([a for a, _ in pairs]), _compute_factor([b for _, b in pairs]))
        for kind, pairs in sorted(ratios.items())
        if len(pairs) >= _MIN_OF_KIND
    }


def _compute_factor(ratios: Sequence[float]) -> float:
    factor = float(np.clip(np.median(ratios), 1 / _LARGEST_FACTOR, _LARGEST_FACTOR))
    return float(f"{factor:.{DIGITS}g}")


def _list_kernels(graph: Graph) -> Iterator[tuple[str, Node]]:
    """The nodes that may become integers, with their keys."""
    target = get_target("ort")
    for node in graph.nodes:
        spec = get_spec(node)
        if spec is None or get_operator(node) in VIEWS or not target.can_quantize(spec):
            continue
        key = build_kernel_key(node)
        values = [v for v in (*node.inputs, *node.outputs) if v is not None and not is_constant(v)]
        if key is not None and all(get_dtype(v) == FLOAT32 for v in values):
            yield key, node
