"""Rows of the report: quantization error of each tensor, result of each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import to_sqnr_db
from ptq.core.plan import Plan
from ptq.core.plan_entries import name_operand
from ptq.core.types import QuantParams
from ptq.evaluation.report.report_data import NodeRow, TensorRow
from ptq.model.graph import Graph
from ptq.model.node import Value, get_name, get_operator, is_constant, require_constant
from ptq.observers.quantization_error import compute_quantization_error
from ptq.observers.stats import TensorStats
from ptq.rewrite.emit.rounded_weight import RoundedWeight

_BLOCK = 2**15
"""Values of a weight whose error is computed at once, 256 kB in float64."""


def build_tensor_rows(
    graph: Graph,
    plan: Plan,
    stats: Mapping[str, TensorStats],
    rounded: Mapping[str, RoundedWeight],
) -> tuple[TensorRow, ...]:
    """One row for each observed activation and each weight: its quantization error, lowest SQNR first.

    Args:
        graph: The prepared graph.
        plan: The plan.
        stats: Statistics by tensor.
        rounded: Weights that were rounded by second order, by node; all others are rounded to the nearest.
    """
    writers = {get_name(v): node.name or "" for node in graph.nodes for v in node.outputs}
    rows = [
        _build_activation_row(name, params, stats[name], str(plan.why[name]), writers.get(name, ""))
        for name, params in plan.tensors.items()
        if name in stats and stats[name].count
    ]
    nodes = {node.name: node for node in graph.nodes}
    for (name, position), params in plan.operands.items():
        value = nodes[name].inputs[position]
        if value is not None and params.qtype.bits == 8:
            why = str(plan.why[name_operand(name, position)])
            integers = rounded[name].integers if position == 1 and name in rounded else None
            rows.append(_build_weight_row(value, params, why, name, integers))
    return tuple(sorted(rows, key=lambda row: (row.sqnr_db, row.name)))


def _build_activation_row(
    name: str, params: QuantParams, stats: TensorStats, why: str, node: str
) -> TensorRow:
    error = compute_quantization_error(stats, params)
    noise = error.rounding + error.clipping
    lo, hi = _compute_representable_range(params)
    return TensorRow(
        name=name,
        kind="activation",
        sqnr_db=error.sqnr_db,
        rounding=error.rounding / noise if noise else 1.0,
        saturation=error.saturation_rate,
        lo=lo,
        hi=hi,
        why=why,
        node=node,
    )


def _build_weight_row(
    value: Value, params: QuantParams, why: str, node: str, integers: NDArray[Any] | None
) -> TensorRow:
    array = require_constant(value)
    signal, noise = _compute_weight_energies(array, params, integers)
    lo, hi = _compute_representable_range(params)
    return TensorRow(
        name=get_name(value),
        kind="weight",
        sqnr_db=to_sqnr_db(signal, noise),
        rounding=1.0,  # the largest magnitude sets the scale, so that nothing is clipped
        saturation=0.0,
        lo=lo,
        hi=hi,
        why=why,
        node=node,
    )


def _compute_weight_energies(
    array: NDArray[Any], params: QuantParams, integers: NDArray[Any] | None
) -> tuple[float, float]:
    """The energies of a weight and of its quantization error, over blocks of rows that fit the cache."""
    weight = np.atleast_1d(array)
    by_row = params.axis is not None and params.axis % weight.ndim == 0
    rows = max(1, _BLOCK * len(weight) // max(1, weight.size))
    signal = noise = 0.0
    for start in range(0, len(weight), rows):
        block = slice(start, start + rows)
        exact = weight[block].astype(np.float64)
        of_block = params.select(block) if by_row else params
        chosen = of_block.quantize(weight[block]) if integers is None else integers[block]
        error = of_block.dequantize(chosen) - exact
        signal += float(np.square(exact, out=exact).sum())
        noise += float(np.square(error, out=error).sum())
    return signal, noise


def _compute_representable_range(params: QuantParams) -> tuple[float, float]:
    def extreme(q: int) -> NDArray[Any]:
        return params.scale.astype(np.float64) * (q - params.zero_point)

    return float(extreme(params.qtype.lo).min()), float(extreme(params.qtype.hi).max())


def build_node_rows(graph: Graph, plan: Plan) -> tuple[NodeRow, ...]:
    """One row for each node of the prepared graph: how it is computed, and why."""
    rows = []
    for node in graph.nodes:
        name = node.name or ""
        if name in plan.floats:
            fate, why = "float", plan.floats[name]
        elif name in plan.folded:
            fate, why = "folded", f"included in the requantization of {plan.folded[name]}"
        elif name in plan.clamps:
            clamp = plan.clamps[name]
            fate, why = "clamp", f"to [{clamp.lo}, {clamp.hi}] after {clamp.producer}"
        else:
            rounding = (plan.rounding or {}).get(name)
            fate, why = "int8", f"weight rounding: {rounding}" if rounding else ""
        read = tuple(get_name(v) for v in node.inputs if v is not None and not is_constant(v))
        written = tuple(get_name(v) for v in node.outputs)
        rows.append(NodeRow(name, get_operator(node), fate, why, read, written))
    return tuple(rows)
