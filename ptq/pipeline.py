"""How does a float model become a quantized one? Plan, correct, write: steps that may be run again and again.

What they all start from, model and statistics, is the Ground; another Recipe or plan never runs the model again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ptq.data import Samples
from ptq.errors import UsageError
from ptq.feeding import Progress, told
from ptq.graph import Graph
from ptq.observers import observer_named
from ptq.observers.means import input_means
from ptq.observers.store import Calibration
from ptq.plan import Plan
from ptq.rewrite.bias import correct_biases
from ptq.rewrite.prepare import Prepared
from ptq.rewrite.qdq import to_qdq
from ptq.rewrite.qlinear import to_qlinear
from ptq.rewrite.unsigned_weights import unsigned_weights
from ptq.rewrite.weights import with_weights
from ptq.scales.operands import with_derived_biases
from ptq.session import sums_exactly
from ptq.solve import Chosen, Settings, solve
from ptq.targets import Target, target
from ptq.weights.second_order import Choice, SecondOrder
from ptq.weights.varying import SAMPLES, Seen, gather

Form = Literal["qdq", "qoperator"]
Weights = Literal["s8", "reduced", "u8"]
AskedWeights = Literal["auto", "s8", "reduced", "u8"]

Rounding = Literal["second-order", "nearest"]

AUTO = "auto"
DEFAULT_METHOD = AUTO
REDUCED = "kept sums of two products within int16, where x86 without VNNI saturates"
FALLBACK = "mse"
"""The method where none was chosen for a tensor."""


@dataclass(frozen=True)
class Recipe:
    """What is asked of a quantization.

    Attributes:
        target: What to quantize for.
        method: Name of the range method; ``auto`` takes those of ``chosen``.
        form: ``qdq`` or ``qoperator``.
        per_tensor: One scale for a whole weight.
        correct_bias: Take the mean error of rounded weights out of the biases.
        floats: Nodes, or operators, to leave float, with the reason.
        weights: ``s8``; ``reduced``, int8 too but no two neighbours so large that their products saturate int16 on
            a processor without VNNI; or ``u8``, int8 weights stored as uint8 with zero point 128, the same integers.
        rounding: How weights become integers; ``second-order`` where the ground knows how inputs vary.
        chosen: The range method of single tensors, where that is left to ptq.
        chosen_note: How it was chosen, a sentence.
        left_note: What a check left float beside what was asked, a sentence.
    """

    target: str = "ort"
    method: str = DEFAULT_METHOD
    form: Form = "qdq"
    per_tensor: bool = False
    correct_bias: bool = True
    floats: Mapping[str, str] = field(default_factory=dict)
    weights: Weights = "s8"
    rounding: Rounding = "second-order"
    chosen: Mapping[str, Chosen] = field(default_factory=dict)
    chosen_note: str = ""
    left_note: str = ""

    def plain(self) -> Recipe:
        """The same written in QDQ with signed weights: the same integers."""
        return replace(self, form="qdq", weights="s8" if self.weights == "u8" else self.weights)

    def leaving(self, floats: Mapping[str, str]) -> Recipe:
        """The same with more nodes left float, each with its reason."""
        return replace(self, floats={**self.floats, **floats})


@dataclass(frozen=True, eq=False)
class Ground:
    """What is known before anything is decided.

    Attributes:
        name: What to call the model.
        source: The float model as given.
        prepared: The same, prepared.
        calibration: The statistics of the prepared graph.
        inputs: How the inputs of weighted nodes vary together, where it was gathered.
    """

    name: str
    source: Graph
    prepared: Prepared
    calibration: Calibration
    inputs: SecondOrder = field(default_factory=lambda: SecondOrder(Seen()))


@dataclass(frozen=True, eq=False)
class Quantization:
    """All that one quantization made.

    Attributes:
        ground: What it was made from.
        recipe: What was asked.
        plan: What was decided.
        quantized: The quantized model.
        changes: What was done to the graph, a sentence each.
        fault: What a check found and left, since the plan is the user's; None where there is nothing.
    """

    ground: Ground
    recipe: Recipe
    plan: Plan
    quantized: Graph
    changes: tuple[str, ...]
    fault: str | None = None


def weights_for(asked: AskedWeights, row: Target, plan: Plan | None = None) -> Weights:
    """How weights are stored; where that is left to ptq, so that nothing saturates where it is checked: here.

    Args:
        asked: What the user asks for.
        row: The target.
        plan: One to obey, which says the scales of weights.

    Raises:
        UsageError: They are not for that target, or a plan says otherwise.
    """
    if asked == "u8" and row.name != "ort":
        raise UsageError(f"weights u8 are for target ort; leave them out for {row.name}")
    if asked == "reduced" and not row.weight.signed:
        raise UsageError(f"weights reduced are int8; leave them out for {row.name}")
    if asked == "reduced" and plan is not None:
        raise UsageError("a plan says the scales of weights; leave out weights reduced")
    if asked == "auto":
        left = plan is not None or not row.weight.signed or sums_exactly()
        return "s8" if left else "reduced"
    return asked


def planned(ground: Ground, recipe: Recipe) -> Plan:
    """Solve a plan.

    Raises:
        StatsError: A tensor that needs a range was not observed.
        UsageError: There is no such target, method, or node to skip.
    """
    graph = ground.prepared.graph
    method, said = recipe.method, recipe.method
    if method == AUTO:
        method, said = FALLBACK, f"{FALLBACK}, without samples to judge by"
    reduced = recipe.weights == "reduced"
    settings = Settings(said, recipe.per_tensor, recipe.floats, recipe.chosen, reduced)
    row, observer = target(recipe.target), observer_named(method)
    plan = solve(graph, ground.calibration.tensors, observer, row, settings)
    return replace(plan, factors=ground.prepared.factors, shores=ground.prepared.shores)


def obeyed(ground: Ground, plan: Plan) -> Plan:
    """A plan of the user's, made complete.

    Raises:
        PlanError: It does not fit the graph.
    """
    plan.check(ground.prepared.graph.digest())
    return with_derived_biases(ground.prepared.graph, plan)


def with_inputs(
    ground: Ground,
    plan: Plan,
    samples: Samples,
    threads: int = 0,
    progress: Progress | None = None,
) -> Ground:
    """The ground with what rounding by second order needs to know, gathered on calibration samples.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    some = samples.spread(SAMPLES)
    read = told(some, "rounding", progress)
    found = gather(ground.prepared.graph, plan, read, len(some), threads=threads)
    return replace(ground, inputs=SecondOrder(found))


def written(ground: Ground, recipe: Recipe, plan: Plan) -> Quantization:
    """Write a plan into the model.

    Raises:
        PlanError: It does not fit the graph.
        UnsupportedError: An operator has no such form.
    """
    graph, changes = ground.prepared.graph, ground.prepared.changes
    changes = (*changes, *filter(None, [recipe.chosen_note, recipe.left_note]))
    choices: Mapping[str, Choice] = {}
    if recipe.rounding == "second-order":
        choices = ground.inputs.choices(graph, plan, corrected=recipe.correct_bias)
    chosen = {node: choice.weight for node, choice in choices.items()}
    weights = {node: weight for node, weight in chosen.items() if weight is not None}
    if recipe.correct_bias:
        means = input_means(ground.calibration, plan.tensors)
        added = ground.inputs.added(graph, plan)
        graph, count = correct_biases(graph, plan, means, weights, added)
        if count:
            note = f"corrected {count} biases for the mean error of their rounded weights"
            changes = (*changes, note)
    if choices:
        graph, changes = with_weights(graph, weights), (*changes, _gain(choices))
    elif plan.rounding and recipe.rounding == "second-order":
        changes = (
            *changes,
            "rounded all weights to the nearest: the plan's rounding needs samples",
        )
    plan = replace(plan, rounding={node: str(choice) for node, choice in choices.items()})
    quantized = to_qdq(graph, plan)
    if recipe.form == "qoperator":
        quantized = to_qlinear(quantized)
    if recipe.weights == "u8":
        quantized = unsigned_weights(quantized)
    if recipe.weights == "reduced":
        changes = (*changes, REDUCED)
    return Quantization(ground, recipe, plan, quantized, changes)


def _gain(choices: Mapping[str, Choice]) -> str:
    gains = sorted(choice.gain_db for choice in choices.values() if choice.rounded is not None)
    left = len(choices) - len(gains)
    if not gains:
        return "rounded all weights to the nearest: by how their inputs vary together loses on held-out samples"
    said = (
        f"rounded {len(gains)} weights by how their inputs vary together: on held-out samples the median error of "
        f"their sums is {gains[len(gains) // 2]:.1f} dB below that of rounding to the nearest"
    )
    return said + (f"; {left} to the nearest, as that loses there" if left else "")
