"""Earlier statistics of ``ptq calibrate --merge``, and whether new samples are prepared like theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptq.data import Preparation
from ptq.data.recorded_preprocess import encode_preprocess
from ptq.data.splits import SampleOptions
from ptq.model.open import open_model
from ptq.observers.calibration_file import Calibration, load, merge_preprocess
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare


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


def check_preprocessing(
    earlier: Sequence[Calibration], model: Path, data: str, given: Preparation | None
) -> None:
    """Make sure before a long run that new samples are prepared like those of earlier statistics.

    Raises:
        StatsError: They are not.
        DataError: There are no samples, or the model does not take them.
    """
    if any(statistics.preprocess is not None for statistics in earlier):
        samples = SampleOptions(given).open(data, open_model(model))
        for statistics in earlier:
            merge_preprocess(statistics.preprocess, encode_preprocess(samples.preprocess))
