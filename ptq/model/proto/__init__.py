"""A model as ONNX's message: reading, checking and mending it, and its weights.

load: how a file or message becomes ONNX's in-memory graph
validate: what must hold that ONNX's own checker does not check
repair: which faults of exporters have one clear meaning and are corrected on reading
function_calls: which nodes stand for a call of one of the model's own functions
sparse_constants: how sparse constants become dense ones
operator_versions: which models newer than ONNX Runtime it can still run
proto_walk: which graphs, nodes and tensors a message holds
external_data: how weights are kept outside a message, which protobuf limits to 2 GiB
weight_files: weights in other files than the model's: where they lie, and reading them
mapped_weight: large weights of a model that stay in their file: the system reads them when they are needed
serialize: a model as the bytes of its message, in pieces: large weights are views of their memory, not copies
subgraph: the model of some nodes of a graph
"""
