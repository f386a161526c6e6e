"""Quantized models of any tool → the form from which integer operators are read.

- ``qlinear_to_qdq``: QLinear operators → QDQ, with ``qlinear_operands`` for what they leave out.
- ``normalize_qdq``: the list ``NORMALIZE_QDQ`` of the following rewrites.
- ``standard_quantizers``: ONNX's own quantizers, each with a zero point.
- ``infer_types``: element types and shapes of all tensors.
- ``split_reinterpretation``: one scale for each tensor.
- ``deduplicate_quantizers``: one QuantizeLinear for equal ones.
- ``fold_quantized_constants``: initializers for quantized constants.
- ``remove_redundant_clamps``: removal of clamps that a quantizer repeats.
- ``quantize_data_movement``: Q/DQ pairs around data movement.
- ``quantize_biases``: MatMul and Add → Gemm, and int32 biases.
"""
