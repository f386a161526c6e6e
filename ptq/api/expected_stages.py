"""The stages that a quantization probably takes, each with an estimate of its runs, for a progress bar.

Trials end as soon as they are decided, so the estimates are upper bounds for these and rough for the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.run_options import ExpectedStage
from ptq.core.stages import (
    CALIBRATING,
    CHECKING,
    CHOOSING_RANGES,
    COMPARING_CANDIDATES,
    COMPENSATING,
    EVALUATING,
    MEASURING_CHANNELS,
    ROUNDING,
    SEARCHING,
)
from ptq.optimization.job import Job

_CANDIDATES = 4
"""Candidates for an equalization that a race compares, on average over its stages."""
_RANGE_SHARE = 3
"""Of so many combinations of range methods, one is not rejected early."""
_CHECKED = 16
"""Runs of the self-check."""
_SEARCHED = 4
"""Measurements of a search for nodes that stay float."""


def list_expected_stages(job: Job) -> tuple[ExpectedStage, ...]:
    """The stages of `ptq.quantize` after the samples are split, in their order."""
    return tuple(stage for stage in _list_stages(job) if stage.runs)


def _list_stages(job: Job) -> Iterator[ExpectedStage]:
    options, effort, solves = job.options, job.effort, job.given.plan is None
    calibration = 0 if job.samples.calibration is None else len(job.samples.calibration)
    evaluation = 0 if job.samples.evaluation is None else len(job.samples.evaluation)
    if options.equalize and solves:
        compared = min(calibration, max(effort.comparison_samples, default=0))
        measured = min(calibration, max(effort.measuring_samples, default=0))
        yield ExpectedStage(MEASURING_CHANNELS, measured)
        yield ExpectedStage(COMPARING_CANDIDATES, _CANDIDATES * compared)
    if job.given.stats is None or job.given.is_calibrated_anew:
        yield ExpectedStage(CALIBRATING, calibration)
    if job.recipe.method == "auto" and solves:
        runs = (
            min(calibration, max(effort.range_samples, default=0))
            * effort.range_runs
            // _RANGE_SHARE
        )
        yield ExpectedStage(CHOOSING_RANGES, runs)
    if job.recipe.rounding == "second-order":
        yield ExpectedStage(ROUNDING, 2 * calibration)  # a run and a matrix product
    yield ExpectedStage(CHECKING, _CHECKED)
    if options.max_drop is not None:
        yield ExpectedStage(SEARCHING, _SEARCHED * (calibration or evaluation))
    if job.recipe.rounding == "second-order" and effort.compensate:
        yield ExpectedStage(COMPENSATING, calibration)
    yield ExpectedStage(EVALUATING, 3 * evaluation)  # float, int8, integers
