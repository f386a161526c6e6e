"""Models for measurements: parameters of the rounding as graph inputs, or its errors as graph outputs.

- ``logits``: the inputs of the last Softmax or Sigmoid as outputs.
- ``adjustable_outliers``: the factors of outlier splitting as inputs.
- ``adjustable_scales``: the scales of activations as inputs.
- ``timing_graph``: a quantizer with its change of layout, whose time is the unit of all times.
- ``kernel_grid``: kernels of common networks alone, to be timed without a model.
- ``error_sources``: the error of each source of rounding as an output, and errors as inputs.
"""
