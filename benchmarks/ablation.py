"""The techniques of ptq's defaults that `benchmarks/accuracy.py --ablation` switches off, and two bounds.

Weights left float bounds any choice of integers for the weights. Activations left float bounds any choice of ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import ptq
from ptq.api import quantize as verb
from ptq.core import targets
from ptq.model.graph import Graph
from ptq.model.node import get_constant, get_operator
from ptq.observers.input_means import InputMean, compute_input_means
from ptq.rewrite.emit.bias_correction import correct_biases
from ptq.rewrite.emit.set_weights import replace_weights
from ptq.rewrite.emit.to_qdq import to_qdq
from ptq.rewrite.equalize.channel_groups import group_channels
from ptq.rewrite.equalize.scale_channels import scale_channels, to_group_factors
from ptq.rewrite.prepare.prepare import open_and_prepare
from ptq.solver.scales import weight_qparams

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "ranges by mse": {"method": "mse"},
    "ranges by min/max": {"method": "minmax"},
    "ranges by percentile": {"method": "percentile"},
    "without second-order rounding": {"rounding": "nearest"},
    "without bias correction": {"correct_bias": False},
    "without both": {"rounding": "nearest", "correct_bias": False},
    "without equalization": {"equalize": False},
    "all of these off": {
        "rounding": "nearest",
        "correct_bias": False,
        "equalize": False,
        "method": "minmax",
    },
    "per-tensor weights": {"per_tensor": True},
    "per-tensor weights, without equalization": {"per_tensor": True, "equalize": False},
}
NO_COMPENSATION = "without error compensation"
ROUNDED_OUTPUTS = "float outputs quantized to 8 bits"
WEIGHTS_BY_MSE = "ranges of weights by mse"
RANGE_SHARES = np.linspace(1, 0.6, 41)
"""Candidate ends of a channel's range, as shares of its largest magnitude."""

Quantize = Callable[..., ptq.Result]


@contextmanager
def disable_compensation() -> Iterator[None]:
    """Switch error compensation off inside the context."""
    with mock.patch.object(verb, "compensate_rounding", lambda made, *_, **__: made):
        yield


@contextmanager
def disable_float_outputs() -> Iterator[None]:
    """Quantize the outputs of all products inside the context; none returns float."""
    row = replace(targets.TARGETS["ort"], float_outputs=False)
    with mock.patch.object(targets, "TARGETS", {**targets.TARGETS, "ort": row}):
        yield


@contextmanager
def use_mse_weight_ranges() -> Iterator[None]:
    """Choose weight ranges inside the context, per-channel or per-tensor, by the least squared rounding error."""

    def chosen(array: Any, target: Any, axis: int | None, paired: Any) -> Any:
        params, why = observed(array, target, axis, paired)
        channels = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, 0)
        values = channels.reshape(len(channels), -1).astype(np.float64)
        scales = RANGE_SHARES[:, None] * np.abs(values).max(axis=1) / target.weight.hi + 1e-30
        rounded = [
            np.clip(np.rint(values / s[:, None]), target.weight.lo, target.weight.hi) * s[:, None]
            for s in scales
        ]
        best = np.argmin([np.square(values - r).sum(axis=1) for r in rounded], axis=0)
        scale = scales[best, np.arange(len(channels))].astype(np.float32)
        return replace(params, scale=scale if axis is not None else scale[0].reshape(())), why

    observed = weight_qparams._compute_weight_qparams
    with mock.patch.object(weight_qparams, "_compute_weight_qparams", chosen):
        yield


def write_float_weights(model: Path, result: ptq.Result, path: Path) -> None:
    """Write the model with float weights and quantized activations; correct biases for the activations."""
    graph = _prepared_graph(model, result)
    kept = {
        node.name or "": get_constant(node.inputs[1]) for node in graph.nodes if _has_weight(node)
    }
    means = compute_input_means(result.calibration, result.plan.tensors)
    graph, _ = correct_biases(graph, result.plan, means, _without_none(kept))
    bare = replace(result.plan, operands={}, edges={}, folded={}, clamps={})
    path.write_bytes(to_qdq(graph, bare).to_bytes())


def write_float_activations(model: Path, result: ptq.Result, path: Path) -> None:
    """Write the model with the result's weights and float activations; correct biases for the weights."""
    graph = _prepared_graph(model, result)
    rounded = _without_none(
        {node.name or "": _dequantized_weight(node) for node in result.graph.nodes}
    )
    means = compute_input_means(result.calibration, result.plan.tensors)
    alone = {name: InputMean(mean.float_mean, 0.0) for name, mean in means.items()}
    graph, _ = correct_biases(graph, result.plan, alone, rounded)
    path.write_bytes(replace_weights(graph, rounded).to_bytes())


BOUNDS = {
    "weights left float": write_float_weights,
    "activations left float": write_float_activations,
}


def _prepared_graph(model: Path, result: ptq.Result) -> Graph:
    """Return the float graph that the result's plan was solved for."""
    graph = open_and_prepare(model)[1].graph
    factors, between = result.plan.channel_factors, result.plan.boundaries
    return scale_channels(
        graph, to_group_factors(group_channels(graph, boundaries=between), factors), between
    )


def _has_weight(node: Any) -> bool:
    return len(node.inputs) > 1 and node.inputs[1] is not None


def _without_none(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if array is not None}


def _dequantized_weight(node: Any) -> Any:
    """Return the node's dequantized weight; None if no DequantizeLinear computes it."""
    source = node.inputs[1].producer() if _has_weight(node) else None
    if source is None or get_operator(source) != "DequantizeLinear":
        return None
    integers, scale = (get_constant(value) for value in source.inputs[:2])
    if integers is None or scale is None or integers.ndim < 2:
        return None
    axis = source.attributes["axis"].as_int() if "axis" in source.attributes else 1
    shape = [1] * integers.ndim
    shape[axis] = -1
    zero_point = get_constant(source.inputs[2]) if len(source.inputs) > 2 else np.zeros(1)
    assert zero_point is not None
    return (integers.astype(np.float32) - zero_point.reshape(shape)) * scale.reshape(shape)
