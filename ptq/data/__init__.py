"""Samples for calibration and evaluation, streamed from images, arrays or Python."""

from ptq.data.holdout import split_folds, split_holdout
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
    "open_samples",
    "split_folds",
    "split_holdout",
]
