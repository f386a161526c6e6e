"""Self-check: the quantized model must be valid and near the float model, else nodes fall back to float.

output_distance    comparison of outputs, and the failure that it finds
boundary_error     the same comparison on tensors that pass from int8 to float
checks             all checks of a quantized model
bisection          the nodes that cause a failure, by bisection
fallback_search    the nodes that cause too much error, by error attribution
self_check         quantize, check, and fall back
"""
