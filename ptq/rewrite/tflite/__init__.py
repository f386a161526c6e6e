"""Quantized graph → LiteRT's `.tflite` file, without TensorFlow.

In the order in which they run:

- ``operations``: the QDQ graph as operators on integers and on floats, with the quantizers between them.
- ``fuse_clamps``: activations as part of the operator before them.
- ``measured_shapes``: the shape of every tensor, and which axes grow with the batch.
- ``emitter``: tensors of the file, each with the order in which its axes are stored (channels last where images are).
- ``rows``: one row for each ONNX operator; the modules ``rows_…`` write LiteRT's operators.
- ``signs``: whether positions that a Gather reads can be negative.
- ``flatbuffer``: the file itself: buffers, operator codes, signature, metadata.
- ``standard_metadata``: TensorFlow Lite's own metadata: name, normalization of images, class names.
- ``write``: all of it.
"""
