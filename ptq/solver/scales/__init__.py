"""Scale and zero point of every quantized tensor.

concat_ranges: Concats whose inputs have ranges too different for one scale.
scale_groups: tensors that must share scale and zero point.
group_qparams: the parameters of such a group, by a range method.
weight_qparams: the parameters of weights and biases.
shared_scales: one set of weight scales for all uses of a weight.

Further files:

clamp_bounds: the real bounds of an activation that clamps.
litert_nodes: nodes whose scales are outside of what LiteRT's integer kernels compute.
near_ranges: inputs that other nodes read too, and whose range is nearly that of a Concat: they take its scale.
table_qparams: the parameters of embedding tables, of which Gather reads rows.
wide_tensors: tensors of 16 bits among those of 8, on targets that compute both: pieces of normalizations.
"""
