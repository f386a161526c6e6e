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

Further files:

- ``builtins``: versions of LiteRT's builtin operators, by the type of their first activation and their options.
- ``inputs_outputs``: inputs and outputs of a `.tflite` file: float, integers or halves.
- ``layouts``: which values are better stored channels last, and which features keep that order.
- ``orders``: orders in which the axes of a value are stored, and which operators depend on them.
- ``rehearsal``: what is known before calibration: which nodes LiteRT can compute only in float, and which not at all.
- ``rows_composed``: float operators that LiteRT says by several of its own.
- ``rows_elementwise``: elementwise operators: sums, products, comparisons, selections, quantizers.
- ``rows_functions``: functions of one value.
- ``rows_linear``: convolutions and matrix products.
- ``rows_reductions``: reductions, running sums, positions of extremes, and functions along an axis.
- ``rows_views``: data movement: views, transpositions, slices, selections and joins.
- ``rows_window``: pools, padding, resizing and regrouping of images.
- ``samplings``: the sampling of LiteRT's resizing operators that takes the same positions as an ONNX Resize.
- ``windows``: windows of convolutions and pools: LiteRT's padding SAME or VALID, or elements to pad before.
"""
