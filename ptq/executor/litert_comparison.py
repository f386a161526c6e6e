"""A `.tflite` file in LiteRT compared with the integer executor, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_to_halves
from ptq.executor.executor import Executor
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program import Step
from ptq.model.graph import Graph
from ptq.model.tflite.interpreter import Kernels, LitertModel
from ptq.rewrite.tflite.flatbuffer import with_outputs

ARITHMETIC_OF: Mapping[Kernels, str] = {"reference": "litert", "xnnpack": "litert-xnnpack"}
"""The arithmetic that computes the integers of LiteRT's kernels."""
Order = tuple[int, ...]


@dataclass
class Tally:
    """Counts of one tensor over all samples.

    Attributes:
        node: Name of the node that computes it.
        op: Its operator.
        elements: Number of compared elements.
        differing: Number that differ.
        largest: Largest difference, in steps of integers; 0 for floats.
        differing_locally: Number that differ when the node reads LiteRT's own integers.
        largest_share: Largest difference of floats, as a share of the sample's largest value; 0 for integers.
    """

    node: str
    op: str
    elements: int = 0
    differing: int = 0
    largest: int = 0
    differing_locally: int = 0
    largest_share: float = 0.0


@dataclass
class LitertComparison:
    """LiteRT's tensors against the executor's.

    Attributes:
        kernels: Which kernels of LiteRT ran.
        arithmetic: The executor's arithmetic.
        samples: Number of samples.
        tensors: Integer tensors in execution order; empty for kernels that do not show them.
        outputs: Model outputs.
        islands: Operators of each float island, by name. Behind one, the executor takes LiteRT's integers.
        float_parts: Integer tensors that float islands write: each against ONNX Runtime's float on LiteRT's own
            integers.
    """

    kernels: Kernels
    arithmetic: str
    samples: int = 0
    tensors: dict[str, Tally] = field(default_factory=dict)
    outputs: dict[str, Tally] = field(default_factory=dict)
    islands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    float_parts: dict[str, Tally] = field(default_factory=dict)

    @property
    def first(self) -> tuple[str, Tally] | None:
        """The first tensor, else the first output, that differs; None if all are equal."""
        pairs = [*self.tensors.items(), *self.outputs.items()]
        return next(((n, t) for n, t in pairs if t.differing or t.differing_locally), None)


def compare_with_executor(
    content: bytes,
    graph: Graph,
    feeds: Iterable[Mapping[str, NDArray[Any]]],
    *,
    kernels: Kernels,
    orders: Mapping[str, Order],
    features: Mapping[str, NDArray[np.int64]] | None = None,
    arithmetic: str = "",
    borders: Mapping[str, str] | None = None,
) -> LitertComparison:
    """Run a file in LiteRT and its QDQ graph in the executor.

    The reference kernels show every tensor: each is compared end to end, and node by node. Of the default kernels the
    outputs are compared, and what they write behind float islands, which a copy of the file shows.

    Args:
        content: The file.
        graph: The QDQ graph whose integer tensors have the names of the file's.
        feeds: The samples. Where the file has float16 at its border, the executor's feeds and outputs are rounded.
        kernels: LiteRT's kernels.
        orders: Stored order of the axes of the file's tensors, by name.
        features: The ONNX feature at each stored position, by name, of flattened tensors in another order.
        arithmetic: The executor's arithmetic; empty for that of the kernels.
        borders: Names of integer tensors of the graph that have another name in the file, with that name.

    Raises:
        UnsupportedError: LiteRT is not installed, or its reference kernels would end the process.
        ModelError: LiteRT refuses the file.
        DataError: A sample does not fit.
    """
    shows_tensors = kernels == "reference"
    renamed = borders or {}
    orders = {**orders, **{ours: orders[name] for ours, name in renamed.items() if name in orders}}
    model = LitertModel(content, kernels=kernels, keep_tensors=shows_tensors)
    executor = Executor(graph, arithmetic or ARITHMETIC_OF[kernels])
    steps = [step for step in executor.program.steps if isinstance(step, Step)]
    tensors = {
        name: Tally(step.name, step.op)
        for step in steps
        for name in step.outputs
        if shows_tensors and name in executor.program.params and name in orders
    }
    written = {name for step in executor.program.steps for name in step.outputs}
    float_parts = {
        name: Tally(step.name, " ".join(step.ops))
        for step in executor.program.steps
        if isinstance(step, FloatIsland)
        for name in step.outputs
        if name in executor.program.params and name in orders
    }
    shown_model = model if shows_tensors else _show(content, float_parts, kernels)
    found = LitertComparison(
        kernels, executor.arithmetic, tensors=tensors, islands=executor.islands,
        outputs={name: Tally(name, "output") for name in model.outputs}, float_parts=float_parts,
    )  # fmt: skip
    halves = model.halves
    for sample in feeds:
        feed = {n: round_to_halves(a) if n in halves else a for n, a in sample.items()}
        theirs = model.run(feed)
        if shown_model is not None and shown_model is not model:
            shown_model.run(feed)
        shown = (
            {} if shown_model is None else _read_in_onnx_order(shown_model, orders, features or {})
        )
        shown |= {ours: shown[name] for ours, name in renamed.items() if name in shown}
        given = {n: a for n, a in shown.items() if n in written and n not in tensors}
        taps = [*tensors, *float_parts]
        ours = executor.run(feed, taps, given)
        local = executor.run(feed, taps, shown) if shows_tensors else ours
        for name, tally in tensors.items():
            if name in shown:
                _count(tally, shown[name], ours[name], local[name])
        for name, tally in float_parts.items():
            if name in shown:
                _count(tally, shown[name], local[name], local[name])
        for name, tally in found.outputs.items():
            end = round_to_halves(ours[name]) if name in halves else ours[name]
            # a file with integers in place of halves has their floats
            as_ours = theirs[name].astype(end.dtype) if end.dtype.kind == "f" else theirs[name]
            _count(tally, as_ours, end, end)
        found.samples += 1
    found.tensors = {name: tally for name, tally in tensors.items() if tally.elements}
    return found


def _show(content: bytes, float_parts: Mapping[str, Tally], kernels: Kernels) -> LitertModel | None:
    """A copy of the file that also returns what its float islands write; None if it has none."""
    return LitertModel(with_outputs(content, float_parts), kernels=kernels) if float_parts else None


def _read_in_onnx_order(
    model: LitertModel, orders: Mapping[str, Order], features: Mapping[str, NDArray[np.int64]]
) -> dict[str, NDArray[Any]]:
    """Tensors of the last run whose order is known, with the axes and features of the ONNX graph."""
    found = {
        name: np.asarray(array.transpose(np.argsort(orders[name])), order="C")
        for name, array in model.read_tensors().items()
        if name in orders and len(orders[name]) == array.ndim and array.dtype.kind == "i"
    }
    flat = {name: found[name][:, np.argsort(features[name])] for name in found.keys() & features}
    return found | flat


def _count(tally: Tally, theirs: NDArray[Any], ours: NDArray[Any], local: NDArray[Any]) -> None:
    tally.elements += theirs.size
    if theirs.shape != ours.shape:
        tally.differing += theirs.size
        tally.largest_share = math.inf
        return
    tally.differing += int(np.count_nonzero(_find_differences(theirs, ours)))
    if local is not ours:
        tally.differing_locally += int(np.count_nonzero(_find_differences(theirs, local)))
    if theirs.dtype.kind == "i" and theirs.size:
        difference = np.abs(theirs.astype(np.int64) - ours.astype(np.int64))
        tally.largest = max(tally.largest, int(difference.max()))
    if theirs.dtype.kind == "f" and theirs.size:
        tally.largest_share = max(tally.largest_share, _find_share(theirs, ours))


def _find_differences(theirs: NDArray[Any], ours: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements differ.

    Two that are no numbers are equal, and an infinity is the largest finite number: LiteRT's reference kernels clamp
    their results to it.
    """
    if theirs.dtype.kind != "f":
        return np.asarray(theirs != ours)
    info = np.finfo(theirs.dtype)
    one, other = (np.clip(array, info.min, info.max) for array in (theirs, ours))
    return np.asarray((one != other) & ~(np.isnan(one) & np.isnan(other)))


def _find_share(theirs: NDArray[Any], ours: NDArray[Any]) -> float:
    """The largest difference of floats as a share of the largest finite value; infinite where one is not finite."""
    differs = _find_differences(theirs, ours)
    if not differs.any():
        return 0.0
    one, other = theirs[differs].astype(np.float64), ours[differs].astype(np.float64)
    if not (np.isfinite(one) & np.isfinite(other)).all():
        return math.inf
    largest = np.abs(ours[np.isfinite(ours)]).max()
    return float(np.abs(one - other).max() / max(float(largest), np.finfo(float).tiny))
