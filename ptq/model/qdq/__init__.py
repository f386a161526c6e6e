"""Quantized graphs: the patterns of QDQ and QLinear form.

qdq_units: operators between DequantizeLinear and QuantizeLinear
qlinear_inputs: which input of a QLinear operator is which
inferred_qparams: scale and zero point of integers that no quantizer produces
wide_activations: which models have activations of 16 bits
"""
