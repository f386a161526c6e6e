"""How does a float model become a quantized one? Plan, correct, write: steps that may be run again and again.

What they all start from, model and statistics, is the Ground; another Recipe or plan never runs the model again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ptq.core.plan import Plan
from ptq.core.targets import get_target
from ptq.model.graph import Graph
from ptq.observers import get_observer
from ptq.observers.calibration_file import Calibration
from ptq.observers.input_means import input_means
from ptq.observers.input_statistics import InputStatistics
from ptq.rewrite.emit.bias_correction import correct_biases
from ptq.rewrite.emit.set_weights import replace_weights
from ptq.rewrite.emit.to_qdq import to_qdq
from ptq.rewrite.emit.to_qlinear import to_qlinear
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.rewrite.shift_to_uint8 import weights_to_uint8
from ptq.solver.recipe import AUTO, FALLBACK_METHOD, REDUCED_NOTE, Recipe
from ptq.solver.rounding.gptq import GptqRounder, WeightRounding
from ptq.solver.scales.weight_qparams import with_derived_biases
from ptq.solver.solve import SolverSettings, solve


@dataclass(frozen=True, eq=False)
class CalibratedModel:
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
    prepared: PreparedModel
    calibration: Calibration
    rounder: GptqRounder = field(default_factory=lambda: GptqRounder(InputStatistics()))


@dataclass(frozen=True, eq=False)
class QuantizedModel:
    """All that one quantization made.

    Attributes:
        ground: What it was made from.
        recipe: What was asked.
        plan: What was decided.
        quantized: The quantized model.
        changes: What was done to the graph, a sentence each.
        fault: What a check found and left, since the plan is the user's; None where there is nothing.
    """

    calibrated_model: CalibratedModel
    recipe: Recipe
    plan: Plan
    quantized_graph: Graph
    changes: tuple[str, ...]
    check_failure: str | None = None


def solve_plan(ground: CalibratedModel, recipe: Recipe) -> Plan:
    """Solve a plan.

    Raises:
        StatsError: A tensor that needs a range was not observed.
        UsageError: There is no such target, method, or node to skip.
    """
    graph = ground.prepared.graph
    method, said = recipe.method, recipe.method
    if method == AUTO:
        method, said = FALLBACK_METHOD, f"{FALLBACK_METHOD}, without samples to judge by"
    reduced = recipe.weights == "reduced"
    settings = SolverSettings(
        said, recipe.per_tensor, recipe.float_nodes, recipe.chosen_methods, reduced
    )
    row, observer = get_target(recipe.target), get_observer(method)
    plan = solve(graph, ground.calibration.tensors, observer, row, settings)
    return replace(
        plan, channel_factors=ground.prepared.channel_factors, boundaries=ground.prepared.boundaries
    )


def complete_user_plan(ground: CalibratedModel, plan: Plan) -> Plan:
    """A plan of the user's, made complete.

    Raises:
        PlanError: It does not fit the graph.
    """
    plan.check(ground.prepared.graph.digest())
    return with_derived_biases(ground.prepared.graph, plan)


def apply_plan(ground: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
    """Write a plan into the model.

    Raises:
        PlanError: It does not fit the graph.
        UnsupportedError: An operator has no such form.
    """
    graph, changes = ground.prepared.graph, ground.prepared.changes
    changes = (*changes, *filter(None, [recipe.range_note, recipe.self_check_note]))
    choices: Mapping[str, WeightRounding] = {}
    if recipe.rounding == "second-order":
        choices = ground.rounder.choose_roundings(graph, plan, corrected=recipe.correct_bias)
    chosen = {node: choice.weight for node, choice in choices.items()}
    weights = {node: weight for node, weight in chosen.items() if weight is not None}
    if recipe.correct_bias:
        means = input_means(ground.calibration, plan.tensors)
        added = ground.rounder.mean_shift(graph, plan)
        graph, count = correct_biases(graph, plan, means, weights, added)
        if count:
            note = f"corrected {count} biases for the mean error of their rounded weights"
            changes = (*changes, note)
    if choices:
        graph, changes = replace_weights(graph, weights), (*changes, _describe_rounding(choices))
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
        quantized = weights_to_uint8(quantized)
    if recipe.weights == "reduced":
        changes = (*changes, REDUCED_NOTE)
    return QuantizedModel(ground, recipe, plan, quantized, changes)


def _describe_rounding(choices: Mapping[str, WeightRounding]) -> str:
    gains = sorted(
        choice.gain_db for choice in choices.values() if choice.integer_weights is not None
    )
    left = len(choices) - len(gains)
    if not gains:
        return "rounded all weights to the nearest: by how their inputs vary together loses on held-out samples"
    said = (
        f"rounded {len(gains)} weights by how their inputs vary together: on held-out samples the median error of "
        f"their sums is {gains[len(gains) // 2]:.1f} dB below that of rounding to the nearest"
    )
    return said + (f"; {left} to the nearest, as that loses there" if left else "")
