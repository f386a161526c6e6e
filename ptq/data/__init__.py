"""Samples for calibration and evaluation, streamed from images, audio, text, arrays or Python.

The way of a sample:

open: `open_samples`: which kind of source the user named, opened
places: what a text names as data: braces, patterns, shards
list_objects: names, URLs and sizes of the objects under a URL
folder: the files in a folder of samples
trees: objects of a store and members of tar shards as a folder of samples
sources: data as other packages give them: loaders, datasets, frames, readers, callables
import_callable: a callable of the user, named as ``module:callable``
formats: files and arrays of one kind as samples: images, audio, text, rows of arrays
preprocessing: options that make arrays of images, audio and text
preparation: `Preparation`: what these options have in common
labels: labels of samples: classes, boxes, texts
labelled_folder: a folder of files as samples, with their labels
box_labels: labels of boxes in pixels of the model's input
labelling: `Labelling`: where labels come from, for reports
sample: `Samples`: a set of samples that can be split without reading it
workers: one exact map over samples: here, in worker processes, on a cluster

What samples are:

sample_source: `Sample`, and what sources of samples have in common
sample_digest: identity of samples by content
image_pattern: identity of images up to their preprocessing
array_source: bases of the sources of arrays
wrapped_source: a source that reads another one in its own way
read_once: a stream that is read once and kept, or compared on each pass
cached_source: samples of files, kept on disk after their first reading
sample_store: the stores of both, in memory or in a temporary file
opened_sources: sources that a process has opened for another one

What the samples are for:

input_spec: `InputSpec`: what a model input takes, and whether an array fits it
input_scaling: the pixel range that the first nodes of a model expect
splits: which samples calibrate, evaluate and search, and how the model takes them
holdout: held-out samples and folds, chosen by a hash
made_inputs: inputs made from the shapes of a model, for runs whose results do not matter
"""

from ptq.data.holdout import (
    rank_by_digest,
    split_every_fourth,
    split_folds,
    split_holdout,
    spread_with_validation,
)
from ptq.data.input_spec import InputSpec
from ptq.data.open import DataSource, open_samples
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.audio_preprocess import AudioPreprocess
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.preprocessing.text_preprocess import TextPreprocess
from ptq.data.sample import Sample, Samples

__all__ = [
    "AudioPreprocess",
    "DataSource",
    "InputSpec",
    "Preparation",
    "Preprocess",
    "Sample",
    "Samples",
    "TextPreprocess",
    "open_samples",
    "rank_by_digest",
    "split_every_fourth",
    "split_folds",
    "split_holdout",
    "spread_with_validation",
]
