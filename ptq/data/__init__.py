"""Samples for calibration and evaluation, streamed from images, audio, text, arrays or Python.

The way of a sample:

sample: `Samples`: a set of samples that can be split without reading it
array_source: bases of the sources of arrays
sample_digest: identity of samples by content
image_pattern: identity of images up to their preprocessing
thumbnail: the image in a feed as a small picture
input_spec: `InputSpec`: what a model input takes, and whether an array fits it
open: `open_samples`: which kind of source the user named, opened
sample_source: `Sample`, and what sources of samples have in common
sample_map: one primitive: a job on parts of the samples, in this process and on the workers of a run
accumulating_map: a job that adds up: each process sends the sum of its parts at the end
sample_parts: parts of samples: consecutive ones or shards, by their place or by value
waiting_part: a part that runs, or is to run
sharing_gain: whether other processes take samples of a stage, and how many at once
run_part: what another process does with a part
job_content: a job as bytes for another process
opened_sources: sources that a process has opened for another one
pool: what a pool of workers is
worker_pool: the processes of a run, warm over all its stages
idle_workers: the processes of a run, while this process has other work
cluster_pool: the workers of a cluster, for one run
cluster_adapters: Dask, Ray and executors
start_workers: workers of a verb, which end with it
interrupts: Ctrl-C and worker processes
wrapped_source: a source that reads another one in its own way
places: what a text names as data: braces, patterns, shards
folder: the files in a folder of samples
labelled_folder: a folder of files as samples, with their labels
folder_labels: labels of a folder of samples, from a file in it or from class folders
label_files: labels in lines or in a table
class_names: numbers of classes by name
labelled_boxes: labelled boxes of images, and how a model may number their classes
coco_labels: labels of boxes in COCO's JSON
yolo_labels: labels of boxes in YOLO's texts
box_labels: labels of boxes in pixels of the model's input
text_labels: labels of texts: tables, or lines
alphabet: the characters of a recognizer's classes
label_numbers: class numbers from integers, floats, booleans, digits and names, and whether the model has the class
label_rows: labels in arrays and of samples, and one-hot rows
labelling: `Labelling`: where labels come from, for reports
images: a folder of images as samples
image_reader: an image of any kind as values of the input
image_rows: rows of uint8 pixels as images
decode: pixels of an image file, and resizing and cropping
warning_filters: filters of warnings while a library decodes a sample
preprocess: `Preprocess`: options from image to array, completed from the model's input
processor_config: configurations of image processors of other packages
recorded_preprocess: what an earlier run recorded: it completes the options, and differences are named
exporter_metadata: preprocessing and class names that exporters write into the metadata of a model
audio_preprocess: `AudioPreprocess`: options from WAV file to array
audio: a folder of WAV files as samples
read_wav: the signal of a WAV file
text_preprocess: `TextPreprocess`: options from text to token numbers
texts: lines of a file, or text files of a folder, as samples
tokenize_text: a text as values of the inputs, by a tokenizer file
preparation: `Preparation`: what the options of images, audio and text have in common
preparation_kinds: the options by the kind of samples
input_scaling: the pixel range that the first nodes of a model expect
rows: rows of arrays, or .npz files, as samples
arrays: reading of .npz and .npy files by rows
trees: objects of a store and members of tar shards as a folder of samples
sources: data as other packages give them: loaders, datasets, frames, readers, callables
import_callable: a callable of the user, named as ``module:callable``
read_once: a stream that is read once and kept, or compared on each pass
cached_source: samples of files, kept on disk after their first reading
sample_store: the stores of both, in memory or in a temporary file

What the samples are for:

splits: which samples calibrate, evaluate and search, and how the model takes them
holdout: held-out samples and folds, chosen by a hash
progress: progress reports while samples are read

Further files:

await_worker: waiting for a cluster that has no workers at the moment
image_options: preprocessing options for a source whose samples may be images or arrays
made_inputs: inputs made from the shapes of a model, for runs whose results do not matter
npz_rows: rows of one member of an .npz: at their place in the file if the member is stored
run_on_threads: parts that threads of this process run, while the processes that would take them wait
"""

from ptq.data.audio_preprocess import AudioPreprocess
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
from ptq.data.preprocess import Preprocess
from ptq.data.sample import Sample, Samples
from ptq.data.text_preprocess import TextPreprocess

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
