"""Evaluations on too few samples: what so few can decide."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.wording import plural
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import ERROR, Budget, describe_metric_change
from ptq.evaluation.intervals import compute_clopper_pearson_interval
from ptq.evaluation.measurements import Evaluation

MIN_SAMPLES = 30
"""With fewer, the 95 % interval of an accuracy without any change reaches more than 11 points to each side."""
_ADVICE = "give 100 or more; smaller changes cannot be separated from chance"


def check_sample_count(evaluation: Evaluation, budget: Budget | None = None) -> Iterator[Diagnosis]:
    """Diagnose an evaluation on few samples.

    Args:
        evaluation: The evaluation.
        budget: A budget that was checked. If it is undecided, its sentence says how many samples it needs.
    """
    if evaluation.samples >= MIN_SAMPLES or (budget is not None and budget.verdict == "undecided"):
        return
    only = f"only {plural(evaluation.samples, 'sample')}: "
    forms = list(evaluation.forms.values())
    drop = next((form.drop for form in forms if form.drop is not None), None)
    if drop is not None:
        change, interval = describe_metric_change(drop)
        what = (
            f"{change}, {interval}"
            if drop.metric == ERROR or not drop.has_interval
            else f"the change has {interval} points"
        )
        yield Diagnosis(only + what, "evaluation samples", _ADVICE, topic="a-few-answers-changed")
    elif forms[0].accuracy is not None:
        count = forms[0].accuracy.labelled
        low, high = compute_clopper_pearson_interval(round(forms[0].accuracy.top1 * count), count)
        what = f"top-1 has 95 % CI {100 * low:.0f} … {100 * high:.0f} %"
        yield Diagnosis(only + what, "evaluation samples", _ADVICE, topic="a-few-answers-changed")
