"""Samples for calibration and evaluation, streamed from images, arrays or Python."""

from ptq.data.fit import InputSpec
from ptq.data.open import DataSource, open_samples
from ptq.data.preprocess import Preprocess
from ptq.data.sample import Sample, Samples
from ptq.data.split import folds, held_out

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
