"""Evaluation samples that are also calibration samples, found by content; images also if normalized otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.wording import plural
from ptq.data.splits import ON_CALIBRATION, SampleSplit
from ptq.evaluation.diagnosis import Diagnosis
from ptq.observers.sample_prefixes import BYTES, LIMIT, Prefixes


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


def find_overlap(samples: SampleSplit, contents: Prefixes | None = None) -> Overlap:
    """Compare the digests of the samples; all sets have been read.

    Args:
        samples: Calibration and evaluation samples.
        contents: Short digests of the samples that the statistics count; None if they are unknown.
    """
    evaluation, description = samples.evaluation, samples.description
    if evaluation is None:
        return Overlap(0, description)
    used = {*(contents or ())}
    if samples.calibration is not None:
        fingerprints = samples.calibration.fingerprints.values()
        used.update(digest[:BYTES] for both in fingerprints for digest in both)
    found = [
        [digest[:BYTES] in used for digest in both] for both in evaluation.fingerprints.values()
    ]
    count, total = sum(map(any, found)), len(found)
    otherwise = any(any(both) and not both[0] for both in found)
    if not count or description == ON_CALIBRATION:
        return Overlap(count, description)
    everything = count == total
    least = "at least " if samples.calibration is None and len(contents or ()) == LIMIT else ""
    shown = "all" if everything else f"{least}{count}"
    warning = Diagnosis(
        f"{shown} of {plural(total, 'sample')} {'is' if count == 1 else 'are'} also calibration samples"
        + (", some of them up to scale, mean and std" if otherwise else ""),
        "evaluation samples",
        "accuracy on samples that set ranges is too optimistic; evaluate on other samples",
    )
    if everything:
        return Overlap(count, ON_CALIBRATION, (warning,))
    numbered = description.replace("on ", f"on {total} ", 1)
    return Overlap(
        count, f"{numbered}, {least}{count} of them also calibration samples", (warning,)
    )
