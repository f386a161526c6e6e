"""One ONNX model: its file, its validation, the Graph, its nodes, its QDQ and QLinear patterns, its session.

From a file or message to a graph:

open: what a user may pass as a model, and whether it is float or quantized
load: how a file or message becomes ONNX's in-memory graph
validate: what must hold that ONNX's own checker does not check
repair: which faults of exporters have one clear meaning and are corrected on reading
sparse_constants: how sparse constants become dense ones
operator_versions: which models newer than ONNX Runtime it can still run
proto_walk: which graphs, nodes and tensors a message holds
external_data: how weights are kept outside a message, which protobuf limits to 2 GiB
save: how a model becomes a file
converted: `Converted`: the result of a conversion between QDQ and QOperator form

The graph:

graph: `Graph`: reading, changing and writing one model
metadata: the records of ptq in a model's metadata
node: what a node or a value says of itself: attributes, type, shape, constant, readers
subgraph: the model of some nodes of a graph
axes: the axis of a Softmax, and which Resize attributes are supported
layer_weights: the layout of the weights of Conv, ConvTranspose, Gemm and MatMul
shared_weights: which nodes share one weight
same_padding: what padding SAME adds to an image
matrix_layout: the layout of the right operand of Gemm and MatMul, from attributes alone
channel_affine: which nodes compute y = a·x + b by channel

Quantized graphs:

qdq_units: operators between DequantizeLinear and QuantizeLinear
qlinear_inputs: which input of a QLinear operator is which
inferred_qparams: scale and zero point of integers that no quantizer produces

Running:

processor: which kind of processor this is
ort_version: which ONNX Runtime is installed
crash_guard: which operands crash ONNX Runtime
ort_value: values of ONNX Runtime that use the memory of a tensor
wide_activations: which models have activations of 16 bits
session_tuning: the settings of a session
session: `Session`: a graph loaded into ONNX Runtime
runtime_types: element types and shapes behind operators that ONNX does not define
exposed_session: a session that returns inner tensors
failure: whether the model or ptq caused an exception

Further files:

custom_ops: operators of other domains that ONNX Runtime does not have
exact_sums: whether ONNX Runtime adds products of 8-bit integers exactly on this processor
finite_constants: whether a constant holds NaN or infinity, found once for each tensor
fixed_shapes: a model with input shapes that are fixed, for runtimes that need them
litert_limits: scales on which LiteRT's integer kernels end their process, found with LiteRT 2.3.0
maker: versions and kind of processor, as far as float results depend on them
weight_files: weights in other files than the model's: where they lie, and reading them
mapped_weight: large weights of a model that stay in their file: the system reads them when they are needed
random_nodes: nodes that draw random numbers
provider_session: ONNX Runtime with another execution provider than the CPU's, built in or from a plugin package
serialize: a model as the bytes of its message, in pieces: large weights are views of their memory, not copies
size_values: values that depend on the lengths of tensors and on constants alone
single_row_weights: whether the matrix weights of a model multiply single rows, so that they need no packed copy
training_mode: nodes that compute as in training, so that the samples of a batch change one another
tflite: LiteRT's `.tflite` files: their schema, their contents as an ONNX model, the interpreter that runs them
"""
