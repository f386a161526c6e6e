"""Is a quantized model fit to be handed over, and which nodes have to go back to float for that?

It passes ONNX's checker, loads and runs in ONNX Runtime with its optimizations on and off, has the inputs and
outputs of the float model, brings no NaN of its own, and is not far from float on a few samples. What is at fault is
found by halves: of the first so many nodes in integers, how few still show it?
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.accuracy.metrics import numbers
from ptq.causes.overflow import refuse_overflow
from ptq.data import Sample
from ptq.errors import DataError, ModelError, PlanError
from ptq.graph import Graph
from ptq.loaded import Loaded
from ptq.message import apart
from ptq.message.modelfile import check_valid
from ptq.nodes import Value, name_of
from ptq.pipeline import Ground, Quantization, Recipe, planned, written
from ptq.plan import Plan
from ptq.session import Session
from ptq.targets import target

FLOOR_DB = 20.0
"""What one operator in 8 bits, or a few, reach with ranges that suit the data."""
DEEP_FLOOR_DB = 10.0
"""Below it the error is a tenth of the signal; a deep network may do well between the two."""
FEW = 20
"""Nodes in integers up to which a network counts as shallow."""
SAMPLES = 2
CONFIRMING = 8
"""Samples that judge what the first few suspect; two may lie anywhere about the mean error."""
MOST_CULPRITS = 12
LEVELS = ("all", "none")

Outputs = list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Truth:
    """The float model's outputs on a few samples."""

    source: Graph
    feeds: Sequence[dict[str, NDArray[Any]]]
    outputs: Sequence[Outputs]
    loaded: Loaded


def truth_of(
    ground: Ground, samples: Iterable[Sample], loaded: Loaded, count: int = SAMPLES
) -> Truth:
    """Run the float model on the first samples.

    Raises:
        ModelError: ONNX Runtime does not take the float model.
        DataError: It fails on a sample, or a sample is bad.
    """
    session = loaded.float(ground)
    feeds, outputs = [], []
    for sample in islice(samples, count):
        try:
            outputs.append(_run(session, sample.feed))
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        feeds.append(sample.feed)
    return Truth(ground.source, feeds, outputs, loaded)


def fit_to_hand_over(
    ground: Ground,
    recipe: Recipe,
    samples: Iterable[Sample],
    *,
    plan: Plan | None = None,
    loaded: Loaded,
) -> Quantization:
    """Quantize, leaving float what a check of the result finds at fault.

    Args:
        ground: What to start from.
        recipe: What is asked.
        samples: The first few are run.
        plan: What `planned` gives, if that is known.
        loaded: Where the models are opened.

    Raises:
        ModelError: ONNX Runtime does not take the float model, or preparing it has changed what it computes.
        DataError: A sample is bad, or the float model fails on it, or overflows so that nothing is quantized.
        StatsError: A tensor that needs a range was not observed.
        UsageError: There is no such target, method, or node to skip.
    """
    made = written(ground, recipe, plan or planned(ground, recipe))
    truth = truth_of(ground, samples, loaded)
    problem = fault(made, truth)
    if problem is not None:
        truth = _repeatable(ground, truth_of(ground, samples, loaded, CONFIRMING))
        _refuse_unfit_ground(ground, truth)
        problem = fault(made, truth)
    left: dict[str, str] = {}
    while problem is not None and _integers(made) and len(left) < MOST_CULPRITS:
        left[_culprit(made, truth)] = f"the self-check found: {problem}"
        made = _attempt(ground, recipe.leaving(left))
        problem = fault(made, truth)
    if problem is not None:
        left |= dict.fromkeys(_integers(made), f"the self-check found: {problem}")
        made = _attempt(ground, recipe.leaving(left))
    if not _integers(made):
        refuse_overflow(
            ground.prepared.graph, ground.calibration.tensors, target(recipe.target), recipe.floats,
            samples, threads=loaded.threads,
        )  # fmt: skip
    return made


def as_planned(
    ground: Ground, recipe: Recipe, plan: Plan, samples: Iterable[Sample], *, loaded: Loaded
) -> Quantization:
    """Obey a plan of the user's, and note what the check finds; the plan is not second-guessed.

    Raises:
        PlanError: The result cannot be handed over: it is not valid, does not run, or brings NaN.
        ModelError: ONNX Runtime does not take the float model.
        DataError: A sample is bad, or the float model fails on it.
        UnsupportedError: An operator has no such form.
    """
    made = written(ground, recipe, plan)
    truth = truth_of(ground, samples, loaded)
    if fault(made, truth) is None:
        return made
    truth = _repeatable(ground, truth_of(ground, samples, loaded, CONFIRMING))
    problem = _fault(made.quantized, truth, -math.inf)
    if problem is not None:
        raise PlanError(f"the plan makes no model to hand over: {problem}; solve it anew")
    return replace(made, fault=fault(made, truth))


def fault(made: Quantization, truth: Truth) -> str | None:
    """What is wrong with a quantized model; None where it may be handed over."""
    few = len(_integers(made)) <= FEW
    return _fault(made.quantized, truth, FLOOR_DB if few else DEEP_FLOOR_DB)


def _fault(graph: Graph, truth: Truth, floor: float) -> str | None:
    try:
        check_valid(apart.outline(graph.model)[0], "the quantized model")
        for before, after in (
            (truth.source.inputs, graph.inputs),
            (truth.source.outputs, graph.outputs),
        ):
            if [_face(v) for v in before] != [_face(v) for v in after]:
                return "other inputs or outputs than the float model's"
        for level in LEVELS:
            session = (
                truth.loaded.quantized(graph)
                if level == "all"
                else Session(graph, threads=truth.loaded.threads, optimize=level, arena=False)
            )
            outputs = [_run(session, feed) for feed in truth.feeds]
            problem = _difference(truth, outputs, floor)
            if problem is not None:
                return problem
    except (ModelError, DataError) as error:
        return str(error)
    return None


def _repeatable(ground: Ground, truth: Truth) -> Truth:
    """The truth as it is; without outputs to compare with where the float model gives others each time."""
    session = truth.loaded.float(ground)
    again = [_run(session, feed) for feed in truth.feeds]
    same = _difference(truth, again, 2 * FLOOR_DB) is None
    return truth if same else replace(truth, outputs=())


def _face(value: Value) -> tuple[str, Any]:
    return name_of(value), value.dtype


def _run(session: Session, feed: dict[str, NDArray[Any]]) -> Outputs:
    return [numbers(output) for output in session.run(feed)]


def _difference(truth: Truth, outputs: Sequence[Outputs], floor: float) -> str | None:
    """How far all samples' outputs are from the truth, if that is too far, or NaN."""
    for position, value in enumerate(truth.source.outputs):
        name = name_of(value)
        signal = noise = 0.0
        for expected, got in zip(truth.outputs, outputs, strict=False):
            t, o = expected[position], got[position]
            if t.shape != o.shape:
                return f"output {name} has shape {list(o.shape)}, not {list(t.shape)}"
            if t.dtype.kind != "f":
                continue
            finite = np.isfinite(t)
            if not np.isfinite(o[finite]).all():
                return f"output {name} brings NaN or Inf"
            real = t[finite].astype(np.float64)
            signal += float((real**2).sum())
            noise += float(((o[finite] - real) ** 2).sum())
        if noise > signal * 10 ** (-floor / 10):
            ratio = f"{10 * np.log10(signal / noise):.1f} dB" if signal else "its signal is 0"
            return f"output {name} is too far from float ({ratio})"
    return None


def _refuse_unfit_ground(ground: Ground, truth: Truth) -> None:
    """Make sure that the fault is not there before anything is quantized.

    Raises:
        ModelError: It is.
    """
    problem = _fault(ground.prepared.graph, truth, FLOOR_DB)
    if problem is not None:
        raise ModelError(f"preparing the model changes what it computes: {problem}; report it")


def _integers(made: Quantization) -> list[str]:
    nodes = (str(node.name) for node in made.ground.prepared.graph.nodes)
    return [name for name in nodes if name not in made.plan.floats]


def _culprit(made: Quantization, truth: Truth) -> str:
    """The node with which, the nodes before it being in integers, the fault appears."""
    names = _integers(made)
    sound, faulty = 0, len(names)
    while faulty - sound > 1:
        middle = (sound + faulty) // 2
        rest = dict.fromkeys(names[middle:], "")
        if fault(_attempt(made.ground, made.recipe.leaving(rest)), truth) is None:
            sound = middle
        else:
            faulty = middle
    return names[faulty - 1]


def _attempt(ground: Ground, recipe: Recipe) -> Quantization:
    return written(ground, recipe, planned(ground, recipe))
