"""One ONNX model: its file, its validation, the Graph, its nodes, its QDQ and QLinear patterns, its session.

From a file or message to a graph:

open: what a user may pass as a model, and whether it is float or quantized
proto: a model as ONNX's message: reading, checking and mending it, and its weights
save: how a model becomes a file
converted: `Converted`: the result of a conversion between QDQ and QOperator form
tflite: LiteRT's `.tflite` files: their schema, their contents as an ONNX model, the interpreter that runs them

The graph:

graph: `Graph`: reading, changing and writing one model
metadata: the records of ptq in a model's metadata
node: what a node or a value says of itself: attributes, type, shape, constant, readers
axes: the axis of a Softmax, and which Resize attributes are supported
batch_inputs: which inputs have the batch as their axis 0
border_casts: the Casts at the border of a float16 or float64 model
weights: the layout of weights, who shares them, and what they hold
qdq: the patterns of quantized graphs

Running:

machine: processor and versions, as far as results depend on them
session: sessions of ONNX Runtime, and what must be known before one opens

Facts of whole models:

fixed_shapes: a model with input shapes that are fixed, for runtimes that need them
random_nodes: nodes that draw random numbers
training_mode: nodes that compute as in training, so that the samples of a batch change one another
litert_limits: scales on which LiteRT's integer kernels end their process, found with LiteRT 2.3.0
size_values: values that depend on the lengths of tensors and on constants alone
"""
