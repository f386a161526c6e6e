"""The preprocessing under which a model was quantized, and what of the run differs from it."""

from __future__ import annotations

from ptq.core.preprocess_record import describe_differences
from ptq.core.record import Record
from ptq.data.preprocessing.recorded_preprocess import (
    RecordedPreprocess,
    encode_preprocess,
)
from ptq.evaluation.diagnosis import Diagnosis
from ptq.optimization.job import Job
from ptq.solver.quantizer import QuantizedModel

_ARRAYS = "arrays, fed as given"


def find_preprocess(job: Job, quantized: QuantizedModel) -> Record | None:
    """The preprocessing under which the ranges were chosen; else that of the samples; None if there are none."""
    recorded = job.given.recorded
    if recorded is not None:
        return recorded.record
    known = quantized.calibrated_model.calibration.preprocess
    used = job.samples.calibration or job.samples.evaluation
    if known is not None or used is None:
        return known
    return encode_preprocess(used.preprocess)


def find_other_preprocess(job: Job, applied: Record) -> Record | None:
    """The preprocessing of the evaluation samples if it differs from that of the ranges."""
    if job.samples.evaluation is None:
        return None
    measured = encode_preprocess(job.samples.evaluation.preprocess)
    return measured if describe_differences(measured, applied) else None


def find_contradictions(job: Job, applied: Record) -> tuple[Diagnosis, ...]:
    """What the samples of this run, or the statistics, have otherwise than the preprocessing of the ranges."""
    given = job.given
    recorded = given.recorded or RecordedPreprocess(applied, "the calibration samples")
    found = {}
    for where, used in (
        ("calibration samples", job.samples.calibration),
        ("evaluation samples", job.samples.evaluation),
    ):
        if used is not None:
            found[where] = recorded.describe_difference(used.preprocess)
    if given.plan is not None and given.stats is not None and given.stats.preprocess is not None:
        difference = describe_differences(given.stats.preprocess, applied)
        found["statistics"] = difference and f"preprocessing differs from the plan: {difference}"
    advice = "prepare all samples alike, or calibrate again"
    # arrays beside images may be prepared alike
    return tuple(
        Diagnosis(what, where, advice, serious=_ARRAYS not in what)
        for where, what in found.items()
        if what and not (given.recorded is None and _ARRAYS in what)  # the report shows both
    )
