"""Data as places and as objects of other packages, which are not imported for them.

array_like: tensors of PyTorch, TensorFlow and others, and nested lists, as numpy arrays
item: one item of a DataLoader, a dataset or a list as rows
batch: a feed of several rows as one feed for each row
hugging_face: datasets of Hugging Face: columns as inputs and label
frame: pandas frames: a column of paths, or one column for each input
calibration_reader: ONNX Runtime's CalibrationDataReader
stream: items of a callable or an iterable as samples
indexed_items: items by index as samples
parquet: rows of Parquet files as samples
open_folder: which kind of samples a folder holds, and with which options
open_place: a file, a folder, shards or a pattern, on this machine or in a store
open_object: which of these an object is, opened
"""
