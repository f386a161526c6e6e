"""Earlier statistics of ``ptq calibrate --merge``, and whether new samples go with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ptq.api.merge_statistics import NamedStatistics, name_statistics
from ptq.calibration.identify import find_contents, identify_samples
from ptq.core.errors import DataError
from ptq.core.remote import redact
from ptq.data.preprocessing.recorded_preprocess import encode_preprocess
from ptq.data.splits import SampleOptions
from ptq.model.open import open_model
from ptq.observers.calibration_file import load, merge_preprocess
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare

_CHECKED_SAMPLES = 8
"""Samples that are read before a run, to find out whether they are counted already."""


def load_statistics(
    model: Path, files: Sequence[Path], opset: OpsetOption
) -> Iterator[NamedStatistics]:
    """Load the statistics in files, each when it is asked for; each must belong to the model.

    Raises:
        ModelError: The model cannot be read.
        StatsError: A file is damaged, or belongs to another model.
    """
    digest = open_and_prepare(model, opset=opset)[1].graph.digest() if files else None
    for path in files:
        yield NamedStatistics(redact(path), load(path, digest))


def check_new_samples(
    earlier: Sequence[NamedStatistics], model: Path, data: str, reading: SampleOptions
) -> None:
    """Make sure before a long run that new samples are prepared like those of earlier ones, and not counted yet.

    Raises:
        StatsError: They are prepared otherwise, or one of the first samples is counted already.
        DataError: There are no samples, or the model does not take them.
    """
    found = [each.statistics for each in earlier]
    if all(each.preprocess is None and each.identity is None for each in found):
        return
    samples = reading.open(data, open_model(model))
    for each in earlier:
        with name_statistics(each.name):
            merge_preprocess(each.statistics.preprocess, encode_preprocess(samples.preprocess))
    if any(each.identity is not None for each in found):
        try:
            first = samples.read_first(_CHECKED_SAMPLES)
        except DataError:  # the run names the bad sample, or skips it
            return
        for each in earlier:
            counted = each.statistics
            if counted.identity is not None:
                with name_statistics(each.name):
                    counted.identity.require_other_samples(
                        identify_samples(first), counted.contents, find_contents(first), share=1
                    )
