"""Data as other packages give them, without importing these packages.

array_like: tensors of PyTorch, TensorFlow and others, and nested lists, as numpy arrays
item: one item of a DataLoader, a dataset or a list as rows
batch: a feed of several rows as one feed for each row
hugging_face: datasets of Hugging Face: columns as inputs and label
frame: pandas frames: a column of paths, or one column for each input
calibration_reader: ONNX Runtime's CalibrationDataReader
stream: items of a callable or an iterable as samples
indexed_items: items by index as samples
open_object: which of these an object is, opened
"""
