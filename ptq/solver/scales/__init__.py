"""Scale and zero point of every quantized tensor.

concat_ranges: Concats whose inputs have ranges too different for one scale.
scale_groups: tensors that must share scale and zero point.
group_qparams: the parameters of such a group, by a range method.
weight_qparams: the parameters of weights and biases.
shared_scales: one set of weight scales for all uses of a weight.
"""
