"""Earlier statistics of ``ptq calibrate --merge``, and the preprocessing of its images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptq.data import Preprocess
from ptq.data.splits import SampleOptions
from ptq.model.open import open_model
from ptq.observers.calibration_file import Calibration, load
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


def image_preprocessing(
    model: Path, data: str | None, given: Preprocess | None
) -> Preprocess | None:
    """The preprocessing of a folder of images for a model; None for other data."""
    if data is None or not Path(data).is_dir():
        return None
    return SampleOptions(given).open(data, open_model(model)).preprocess
