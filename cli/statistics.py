"""Earlier statistics of ``ptq calibrate --merge``, and whether new samples go with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptq.calibration.identify import find_contents, identify_samples
from ptq.core.errors import DataError
from ptq.data.recorded_preprocess import encode_preprocess
from ptq.data.splits import SampleOptions
from ptq.model.open import open_model
from ptq.observers.calibration_file import Calibration, load, merge_preprocess
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare

_CHECKED_SAMPLES = 8
"""Samples that are read before a run, to find out whether they are counted already."""


def load_statistics(model: Path, files: Sequence[Path], opset: OpsetOption) -> list[Calibration]:
    """Load the statistics in files; each must belong to the model.

    Raises:
        ModelError: The model cannot be read.
        StatsError: A file is damaged, or belongs to another model.
    """
    if not files:
        return []
    digest = open_and_prepare(model, opset=opset)[1].graph.digest()
    return [load(path, digest) for path in files]


def check_new_samples(
    earlier: Sequence[Calibration], model: Path, data: str, reading: SampleOptions
) -> None:
    """Make sure before a long run that new samples are prepared like those of earlier ones, and not counted yet.

    Raises:
        StatsError: They are prepared otherwise, or one of the first samples is counted already.
        DataError: There are no samples, or the model does not take them.
    """
    if all(each.preprocess is None and each.identity is None for each in earlier):
        return
    samples = reading.open(data, open_model(model))
    for statistics in earlier:
        merge_preprocess(statistics.preprocess, encode_preprocess(samples.preprocess))
    if any(statistics.identity is not None for statistics in earlier):
        try:
            first = samples.read_first(_CHECKED_SAMPLES)
        except DataError:  # the run names the bad sample, or skips it
            return
        for statistics in earlier:
            if statistics.identity is not None:
                statistics.identity.require_other_samples(
                    identify_samples(first), statistics.contents, find_contents(first), share=1
                )
