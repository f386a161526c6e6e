"""One quantization before calibration: the model opened and prepared, the samples split, the options resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptq.core.errors import UnsupportedError, UsageError
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.data import DataSource
from ptq.data.splits import ON_CALIBRATION, SampleOptions, SampleSplit, split_samples
from ptq.model.graph import Graph
from ptq.model.open import Model, display_name
from ptq.optimization.decision_log import log_decisions
from ptq.optimization.earlier_run import NOTHING_GIVEN, Given
from ptq.optimization.effort import EFFORTS, Effort
from ptq.optimization.options import QuantizeOptions
from ptq.rewrite.border.batch import require_free_batch
from ptq.rewrite.prepare.prepare import PreparedModel, open_and_prepare
from ptq.rewrite.tflite.rehearsal import rehearse_writing
from ptq.rewrite.tflite.write import TfliteOptions
from ptq.solver.recipe import Recipe
from ptq.solver.skipped_nodes import SKIPPED_REASON, resolve_skipped_nodes


@dataclass(frozen=True, eq=False)
class Job:
    """One quantization before calibration.

    Attributes:
        name: What to call the model.
        source: The float model as given.
        prepared: The model, prepared and rewritten so far.
        samples: Which samples serve what.
        options: What is asked.
        recipe: The same, resolved so far.
        given: Statistics or a plan of an earlier run.
        run: How the job runs.
        plain: The model before its channels were scaled, if nothing else was rewritten; else None.
    """

    name: str
    source: Graph
    prepared: PreparedModel
    samples: SampleSplit
    options: QuantizeOptions
    recipe: Recipe
    given: Given
    run: RunOptions
    plain: Graph | None = None

    @property
    def effort(self) -> Effort:
        """How many samples and runs each decision may take."""
        return EFFORTS[self.options.effort]


def open_job(
    model: Model,
    data: DataSource | None,
    eval_data: DataSource | None,
    reading: SampleOptions,
    options: QuantizeOptions,
    run: RunOptions,
    *,
    given: Given = NOTHING_GIVEN,
    search: bool,
) -> Job:
    """Open and prepare the model, and split the samples.

    Args:
        model: A float model.
        data: Calibration samples.
        eval_data: Samples to measure accuracy on; None to hold some of ``data`` out.
        reading: How samples are read.
        options: What is asked.
        run: How the job runs.
        given: Statistics or a plan of an earlier run.
        search: Whether samples are needed to decide which nodes stay float.

    Raises:
        ModelError: The model cannot be read or prepared.
        DataError: Samples are missing or do not fit.
        UsageError: An option makes no sense.
    """
    kept = None if data is not None else given.open_kept_samples()
    given = replace(given, is_calibrated_anew=kept is not None)
    source, prepared = open_and_prepare(
        model,
        opset=options.opset,
        per_tensor=options.per_tensor if given.plan is None else given.plan.is_per_tensor,
        known=given.names,
        digest=given.prepared_digest,
        float_functions=options.target_row(given.plan).has_float_functions,
    )
    labels = options.metric is None
    reading = replace(reading, recorded=given.recorded)
    samples = split_samples(prepared.graph, data, eval_data, reading, search=search, labels=labels)
    if options.static_batch is not None:
        require_free_batch(source, options.static_batch, options.to_tflite_options(samples).shapes)
    if not search:
        samples = _limit_reported(samples, EFFORTS[options.effort].reported_samples)
    if kept is not None:
        samples = replace(samples, calibration=kept)
    ineffective = [] if given.plan is None else options.list_ineffective()
    if data is None and reading.samples is not None:
        ineffective.append(f"samples {reading.samples} has no effect without data")
    if given.plan is not None:
        options = options.without_ineffective()
    recipe = options.to_recipe(given.plan)
    skipped = resolve_skipped_nodes(prepared.graph, recipe.float_nodes, source)
    recipe = replace(recipe, float_nodes=dict.fromkeys(skipped, SKIPPED_REASON))
    if given.plan is not None and recipe.float_nodes:
        raise UsageError("a plan already lists the float nodes; do not combine plan with skip")
    if given.plan is None:
        recipe = recipe.with_float_nodes(prepared.float_nodes)
    for note in ineffective:
        prepared = prepared.with_note(note)
    if options.form == "tflite":
        tflite = options.to_tflite_options(samples)
        recipe = _check_for_litert(prepared.graph, tflite, recipe, given.plan)
    log_decisions(prepared.describe_changes())
    return Job(display_name(model), source, prepared, samples, options, recipe, given, run)


def _limit_reported(samples: SampleSplit, most: int) -> SampleSplit:
    """Measure accuracy on at most so many samples, if all of them set ranges too; 0 for no limit."""
    if not most or samples.evaluation is None or samples.description != ON_CALIBRATION:
        return samples
    return replace(samples, evaluation=samples.evaluation.spread(most))


def _check_for_litert(
    graph: Graph, options: TfliteOptions, recipe: Recipe, plan: Plan | None
) -> Recipe:
    """The recipe with the nodes that LiteRT computes only in float.

    Raises:
        UnsupportedError: LiteRT has no form of a node at all, or of one that the plan quantizes.
    """
    floats = rehearse_writing(graph, options)
    if plan is None:
        return recipe.with_float_nodes(floats)
    for name in floats.keys() - plan.floats.keys():
        raise UnsupportedError(
            f"the plan quantizes node {name}, but {floats[name]}; solve a plan for `form` tflite"
        )
    return recipe
