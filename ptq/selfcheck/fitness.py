"""Is a quantized model fit to be handed over?

It passes ONNX's checker, loads and runs in ONNX Runtime with its optimizations on and off, has the inputs and
outputs of the float model, brings no NaN of its own, and is not far from float on a few samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.accuracy.metrics import numbers
from ptq.data import Sample
from ptq.errors import DataError, ModelError
from ptq.graph import Graph
from ptq.loaded import Loaded
from ptq.message import apart
from ptq.message.modelfile import check_valid
from ptq.nodes import Value, name_of
from ptq.pipeline import Ground, Quantization, Recipe, planned, written
from ptq.plan import Plan
from ptq.session import Session

FLOOR_DB = 20.0
"""What one operator in 8 bits, or a few, reach with ranges that suit the data."""
DEEP_FLOOR_DB = 10.0
"""Below it the error is a tenth of the signal; a deep network may do well between the two."""
FEW = 20
"""Nodes in integers up to which a network counts as shallow."""
SAMPLES = 2
CONFIRMING = 8
"""Samples that judge what the first few suspect; two may lie anywhere about the mean error."""
LEVELS = ("all", "none")

Outputs = list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Truth:
    """The float model's outputs on a few samples."""

    source: Graph
    samples: Sequence[Sample]
    outputs: Sequence[Outputs]
    loaded: Loaded


@dataclass(frozen=True, eq=False)
class Fault:
    """What is wrong with a quantized model.

    Attributes:
        said: That, in words.
        shares: Where it is the distance from float alone, by output the energy of the error over the output's own.
        most: By output, the greatest share that is not too far.
        by_values: Whether values that are a little off may be all that is at fault: they are too far, or decide how
            long an output is.
    """

    said: str
    shares: NDArray[np.float64] | None = None
    most: float = math.inf
    by_values: bool = False

    def __str__(self) -> str:
        return self.said


def truth_of(
    ground: Ground, samples: Iterable[Sample], loaded: Loaded, count: int = SAMPLES
) -> Truth:
    """Run the float model on the first samples.

    Raises:
        ModelError: ONNX Runtime does not take the float model.
        DataError: It fails on a sample, or a sample is bad.
    """
    session, some = loaded.float(ground), list(islice(samples, count))
    outputs = []
    for sample in some:
        try:
            outputs.append(_run(session, sample))
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
    return Truth(ground.source, some, outputs, loaded)


def confirming(ground: Ground, samples: Iterable[Sample], loaded: Loaded) -> Truth:
    """The truth on more samples; without outputs to compare with where the float model gives others each time.

    Raises:
        DataError: The model fails on a sample.
    """
    truth = truth_of(ground, samples, loaded, CONFIRMING)
    session = truth.loaded.float(ground)
    again = [_run(session, sample) for sample in truth.samples]
    same = _difference(truth, again, 2 * FLOOR_DB) is None
    return truth if same else replace(truth, outputs=())


def fault(made: Quantization, truth: Truth) -> Fault | None:
    """What is wrong with a quantized model; None where it may be handed over."""
    return fault_of(made.quantized, truth, floor(made))


def floor(made: Quantization) -> float:
    """How many decibels of signal over error the outputs must have."""
    return FLOOR_DB if len(integers(made)) <= FEW else DEEP_FLOOR_DB


def integers(made: Quantization) -> list[str]:
    """The nodes that are not float, in order."""
    nodes = (str(node.name) for node in made.ground.prepared.graph.nodes)
    return [name for name in nodes if name not in made.plan.floats]


def attempt(
    ground: Ground,
    recipe: Recipe,
    plan: Plan | None = None,
    floats: Mapping[str, str] | None = None,
) -> Quantization:
    """Quantize with more nodes left float; by a plan, if it is known."""
    recipe = recipe.leaving(floats or {})
    return written(ground, recipe, plan or planned(ground, recipe))


def fault_of(graph: Graph, truth: Truth, floor: float) -> Fault | None:
    """What is wrong with a model whose outputs must have so many decibels of signal over error."""
    try:
        check_valid(apart.outline(graph.model)[0], "the quantized model")
        for before, after in (
            (truth.source.inputs, graph.inputs),
            (truth.source.outputs, graph.outputs),
        ):
            if [_face(v) for v in before] != [_face(v) for v in after]:
                return Fault("other inputs or outputs than the float model's")
        for level in LEVELS:
            session = (
                truth.loaded.quantized(graph)
                if level == "all"
                else Session(graph, threads=truth.loaded.threads, optimize=level, arena=False)
            )
            outputs = [_run(session, sample) for sample in truth.samples]
            problem = _difference(truth, outputs, floor)
            if problem is not None:
                return problem
    except (ModelError, DataError) as error:
        return Fault(str(error))
    return None


def _face(value: Value) -> tuple[str, Any]:
    return name_of(value), value.dtype


def _run(session: Session, sample: Sample) -> Outputs:
    return [numbers(output) for output in session.run(sample.feed)]


def _difference(truth: Truth, outputs: Sequence[Outputs], floor: float) -> Fault | None:
    """How far all samples' outputs are from the truth, if that is too far, or NaN."""
    count, most = len(truth.source.outputs), 10 ** (-floor / 10)
    signal, noise = np.zeros(count), np.zeros(count)
    for position, value in enumerate(truth.source.outputs):
        name = name_of(value)
        for expected, got in zip(truth.outputs, outputs, strict=False):
            t, o = expected[position], got[position]
            if t.shape != o.shape:
                said = f"output {name} has shape {list(o.shape)}, not {list(t.shape)}"
                return Fault(said, by_values=True)
            if t.dtype.kind != "f":
                continue
            finite = np.isfinite(t)
            if not np.isfinite(o[finite]).all():
                return Fault(f"output {name} brings NaN or Inf")
            real = t[finite].astype(np.float64)
            signal[position] += float((real**2).sum())
            noise[position] += float(((o[finite] - real) ** 2).sum())
        if noise[position] and not signal[position]:
            return Fault(f"output {name} is too far from float (its signal is 0)", by_values=True)
    shares = noise / np.where(signal > 0, signal, 1.0)
    if not (noise > signal * most).any():
        return None
    worst = int(shares.argmax())
    ratio = f"{decibels(float(shares[worst])):.1f} dB"
    name = name_of(truth.source.outputs[worst])
    return Fault(f"output {name} is too far from float ({ratio})", shares, most, True)


def decibels(share: float) -> float:
    """Signal over error, of the error's share of the signal's energy."""
    return -10 * math.log10(share) if share > 0 else math.inf
