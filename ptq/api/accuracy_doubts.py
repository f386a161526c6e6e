"""Doubts about a measured accuracy, the most serious first."""

from __future__ import annotations

from collections.abc import Iterable

from ptq.data import Samples
from ptq.evaluation.checks.input_shift_check import InputShiftCheck
from ptq.evaluation.checks.output_check import diagnose_outputs
from ptq.evaluation.checks.preprocessing_check import diagnose_assumption
from ptq.evaluation.checks.sample_count_check import check_sample_count
from ptq.evaluation.diagnosis import Diagnosis, sort_by_seriousness
from ptq.evaluation.drop import Budget
from ptq.evaluation.measurements import Evaluation


def collect_doubts(
    first: Iterable[Diagnosis],
    evaluation: Evaluation,
    opened: Samples,
    shift: InputShiftCheck,
    budget: Budget | None,
    reference: str,
) -> tuple[Diagnosis, ...]:
    """The doubts of one verb, and after them those about inputs, outputs and number of samples of any measurement.

    Args:
        first: The doubts of the verb, in its order.
        evaluation: What was measured.
        opened: The samples.
        shift: The check that has seen all of them.
        budget: The drop compared with the budget; None without one.
        reference: What to call the model that is compared with.
    """
    return sort_by_seriousness(
        (
            *first,
            *shift.find(),
            *diagnose_assumption(opened),
            *diagnose_outputs(evaluation, reference),
            *check_sample_count(evaluation, budget),
        )
    )
