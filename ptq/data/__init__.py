"""Samples for calibration and evaluation, streamed from images, arrays or Python."""

from ptq.data.holdout import folds, held_out
from ptq.data.input_spec import InputSpec
from ptq.data.open import DataSource, open_samples
from ptq.data.preprocess import Preprocess
from ptq.data.sample import Sample, Samples

__all__ = [
    "DataSource",
    "InputSpec",
    "Preprocess",
    "Sample",
    "Samples",
    "folds",
    "held_out",
    "open_samples",
]
