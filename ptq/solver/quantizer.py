"""Calibrated model and recipe → plan → quantized model.

Planning, rounding, bias correction and writing may run again and again: every trial starts from one
`CalibratedModel`, and neither another recipe nor another plan runs the float model again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ptq.core.plan import Plan
from ptq.core.targets import get_target
from ptq.core.wording import plural
from ptq.model.graph import Graph
from ptq.model.session.exact_sums import needs_exact_sums
from ptq.observers.calibration_file import Calibration
from ptq.observers.input_means import compute_input_means
from ptq.observers.input_statistics import InputStatistics
from ptq.observers.kept_inputs import KeptInputs
from ptq.rewrite.emit.bias_correction import correct_biases
from ptq.rewrite.emit.check_plan import check_completeness, check_plan
from ptq.rewrite.emit.keep_float import keep_float_everywhere
from ptq.rewrite.emit.rounded_weight import RoundedWeight
from ptq.rewrite.emit.set_weights import replace_weights
from ptq.rewrite.emit.to_qdq import to_qdq
from ptq.rewrite.emit.to_qlinear import to_qlinear
from ptq.rewrite.emit.zero_point_in_bias import move_zero_points_into_biases
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.rewrite.shift_to_uint8 import shift_weights_to_uint8
from ptq.solver.describe_weights import describe_roundings, describe_shared_weights
from ptq.solver.recipe import EXACT_NOTE, REDUCED_NOTE, Recipe
from ptq.solver.rounding.gptq import GptqRounder, WeightRounding
from ptq.solver.scales.weight_qparams import with_derived_biases
from ptq.solver.solve import solve


@dataclass(frozen=True, eq=False)
class CalibratedModel:
    """A float model with all measurements from which it can be quantized.

    Attributes:
        name: Name of the model for reports.
        source: The float model as the user gave it.
        prepared: The float model after preparation.
        calibration: Statistics of the prepared graph.
        rounder: Second-order rounding by the input covariances of linear layers; empty where none were collected.
        kept_inputs: Inputs of the layers that error compensation may re-fit.
    """

    name: str
    source: Graph
    prepared: PreparedModel
    calibration: Calibration
    rounder: GptqRounder = field(default_factory=lambda: GptqRounder(InputStatistics()))
    kept_inputs: KeptInputs = field(default_factory=KeptInputs)

    def release(self) -> None:
        """Free the statistics of layer inputs; from then on no weight can be rounded by second order."""
        self.kept_inputs.clear()
        self.rounder.release()


@dataclass(frozen=True, eq=False)
class QuantizedModel:
    """The result of one quantization.

    Attributes:
        calibrated_model: The model that was quantized.
        recipe: The request.
        plan: The decisions.
        quantized_graph: The quantized model.
        changes: One line for each change of the graph.
        rounded: The weights that were rounded by second order, by node.
        check_failure: The failure that the self-check found in a plan of the user; None if there is none.
        instability: What rounding alone does to the float model's outputs, if it forbids comparisons; else empty.
    """

    calibrated_model: CalibratedModel
    recipe: Recipe
    plan: Plan
    quantized_graph: Graph
    changes: tuple[str, ...]
    rounded: Mapping[str, RoundedWeight]
    check_failure: str | None = None
    instability: str = ""


@dataclass(frozen=True, eq=False)
class Draft:
    """A recipe, and what is made by it already.

    Attributes:
        recipe: The request.
        plan: Its plan; None if it is not solved.
        made: The quantized model; None if it is not made.
        is_checked: Whether ``made`` has passed the self-check, or has what failed in float.
    """

    recipe: Recipe
    plan: Plan | None = None
    made: QuantizedModel | None = None
    is_checked: bool = False

    def with_knee_note(self, note: str) -> Draft:
        """The same with a note on the nodes that stay float, which changes no integer."""
        recipe = replace(self.recipe, knee_note=note)
        return replace(self, recipe=recipe, made=self.made and _with_notes(self.made, recipe))


def solve_plan(calibrated: CalibratedModel, recipe: Recipe) -> Plan:
    """Solve a plan for the prepared graph.

    Raises:
        StatsError: The statistics lack a tensor whose range is needed.
        UsageError: The target, the range method or a node to keep float does not exist.
    """
    prepared, seen = calibrated.prepared, calibrated.calibration
    plan = solve(prepared.graph, seen.tensors, recipe.target_row, recipe, seen.graph)
    return replace(plan, channel_factors=prepared.channel_factors, boundaries=prepared.boundaries)


def complete_user_plan(calibrated: CalibratedModel, plan: Plan) -> Plan:
    """The user's plan with bias scales that follow from its input and weight scales.

    Raises:
        PlanError: The plan does not fit the graph.
    """
    plan.check(calibrated.prepared.graph.digest())
    check_plan(calibrated.prepared.graph, plan)
    check_completeness(calibrated.prepared.graph, plan)
    return with_derived_biases(calibrated.prepared.graph, plan)


def apply_plan(calibrated: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
    """Quantize the prepared graph: round weights, correct biases, write quantizers.

    Raises:
        PlanError: The plan does not fit the graph.
        UnsupportedError: An operator does not exist in the form that the recipe asks for.
    """
    prepared, changes = calibrated.prepared, _list_notes(calibrated, recipe)
    roundings = _choose_roundings(calibrated, recipe, plan)
    rounded = {n: choice.rounded for n, choice in roundings.items() if choice.rounded is not None}
    graph = _write_weights(calibrated, recipe, plan, rounded, changes)
    changes += describe_roundings(recipe, plan, roundings)
    changes += describe_shared_weights(prepared.graph, plan)
    if recipe.weights == "reduced":
        changes.append(REDUCED_NOTE)
    plan = replace(
        plan,
        rounding={node: str(choice) for node, choice in roundings.items()},
        weights="u8" if recipe.weights == "u8" else None,
    )
    quantized = _emit(graph, recipe, plan)
    if recipe.form != "tflite" and needs_exact_sums(quantized):
        changes.append(EXACT_NOTE)
    return QuantizedModel(calibrated, recipe, plan, quantized, tuple(changes), rounded)


def quantize_with(
    calibrated: CalibratedModel,
    recipe: Recipe,
    plan: Plan | None = None,
    floats: Mapping[str, str] | None = None,
) -> QuantizedModel:
    """Quantize with more nodes in float, each with the reason; by the given plan, or else by a new one."""
    recipe = recipe.with_float_nodes(floats or {})
    return apply_plan(calibrated, recipe, plan or solve_plan(calibrated, recipe))


def finish_for_runtime(quantized: QuantizedModel) -> QuantizedModel:
    """The quantized model in the form that its runtime computes fastest; the integers stay the same.

    It comes last: its dequantized activations may be shifted, so that they cannot be compared with those in float.
    """
    if (
        quantized.recipe.form != "qdq"
        or not get_target(quantized.plan.target).zero_points_in_biases
    ):
        return quantized
    graph = quantized.quantized_graph.copy()
    move_zero_points_into_biases(graph)
    graph.sort()
    graph.remove_unused()
    return replace(quantized, quantized_graph=graph)


def _list_notes(calibrated: CalibratedModel, recipe: Recipe) -> list[str]:
    """The report's lines on the changes before quantization."""
    notes = filter(None, [recipe.range_note, recipe.knee_note, recipe.self_check_note])
    return [*calibrated.prepared.describe_changes(), *notes]


def _with_notes(quantized: QuantizedModel, recipe: Recipe) -> QuantizedModel:
    """The model with the notes of a recipe that asks for the same."""
    own = quantized.changes[len(_list_notes(quantized.calibrated_model, quantized.recipe)) :]
    changes = (*_list_notes(quantized.calibrated_model, recipe), *own)
    return replace(quantized, recipe=recipe, changes=changes)


def _choose_roundings(
    calibrated: CalibratedModel, recipe: Recipe, plan: Plan
) -> Mapping[str, WeightRounding]:
    """The second-order rounding of weights, by node; empty where the recipe asks for none."""
    if recipe.rounding != "second-order":
        return {}
    graph = calibrated.prepared.graph
    return calibrated.rounder.choose_roundings(graph, plan, corrected=recipe.correct_bias)


def _write_weights(
    calibrated: CalibratedModel,
    recipe: Recipe,
    plan: Plan,
    weights: Mapping[str, RoundedWeight],
    changes: list[str],
) -> Graph:
    """The prepared graph with rounded weights and the biases corrected for them; appends to ``changes``."""
    graph = calibrated.prepared.graph
    if recipe.correct_bias:
        means = compute_input_means(calibrated.calibration, plan.tensors)
        mean_shift = calibrated.rounder.mean_shift(graph, plan)
        graph, count = correct_biases(graph, plan, means, weights, mean_shift)
        if count:
            changes.append(f"bias correction: {plural(count, 'layer')}")
    return replace_weights(graph, weights) if weights else graph


def _emit(graph: Graph, recipe: Recipe, plan: Plan) -> Graph:
    """The quantized graph in the form and with the weight format of the recipe."""
    quantized = to_qdq(graph, plan)
    if recipe.form == "tflite":
        keep_float_everywhere(quantized, plan.floats)
        quantized.sort()
    if recipe.form == "qoperator":
        quantized = to_qlinear(quantized)
    if recipe.weights == "u8":
        quantized = shift_weights_to_uint8(quantized)
    quantized.target = plan.target
    return quantized
