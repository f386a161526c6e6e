"""Evaluation samples that are also calibration samples, found by content."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.wording import plural
from ptq.data.splits import ON_CALIBRATION, SampleSplit
from ptq.evaluation.report import Diagnosis


@dataclass(frozen=True)
class Overlap:
    """Evaluation samples with the content of a calibration sample.

    Attributes:
        count: How many there are.
        description: Text that says which samples the evaluation uses, and how many of them are shared.
        warnings: One diagnosis if there are any that the user did not expect.
    """

    count: int
    description: str
    warnings: tuple[Diagnosis, ...] = ()


def find_overlap(samples: SampleSplit) -> Overlap:
    """Compare the digests of the samples; both sets have been read."""
    calibration, evaluation, description = (
        samples.calibration,
        samples.evaluation,
        samples.description,
    )
    if calibration is None or evaluation is None:
        return Overlap(0, description)
    count, total = evaluation.count_shared(calibration), len(evaluation.digests)
    if not count or evaluation is calibration:
        return Overlap(count, description)
    everything = count == total
    shown = "all" if everything else str(count)
    warning = Diagnosis(
        f"{shown} of {plural(total, 'sample')} {'is' if count == 1 else 'are'} also calibration samples",
        "evaluation samples",
        "accuracy on samples that set ranges is too optimistic; evaluate on other samples",
    )
    if everything:
        return Overlap(count, ON_CALIBRATION, (warning,))
    numbered = description.replace("on ", f"on {total} ", 1)
    return Overlap(count, f"{numbered}, {count} of them also calibration samples", (warning,))
