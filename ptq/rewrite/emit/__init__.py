"""Prepared graph and plan → quantized graph.

Before the quantizers:

- ``set_weights``: weights with other values.
- ``bias_correction``: biases that compensate mean rounding errors.

QDQ form:

- ``to_qdq``: the plan's quantizers, made by ``q_dq_nodes``.
- ``check_plan``: whether the plan fits the graph.
- ``fold_activations``: removal of activations that requantization replaces.
- ``keep_float``: protection of float nodes from quantization by ONNX Runtime.
- ``zero_point_in_bias``: zero points in the biases of the layers that read them, for OpenVINO; it comes last.
- ``block_skip_layer_norm``, ``decompose_prelu``, ``hard_sigmoid_by_saturation``: faster forms for ONNX Runtime.

QOperator form:

- ``to_qlinear``: QDQ → ONNX Runtime's integer operators.

Checks of the result:

- ``vnni_saturation``: nodes that can saturate on x86 without VNNI.

Further files:

- ``allow_16_bits``: quantizers of 16 bits; before opset 21 they are of Microsoft's domain.
- ``dense_as_matmul``: Gemm between two Reshapes → MatMul and Add.
- ``integer_tables``: Gather of int8 rows of a table, and DequantizeLinear.
- ``keep_reduced_axes``: ReduceMax and ReduceMin with their axes and a Squeeze, for OpenVINO.
- ``reciprocal_as_quotient``: quantized Reciprocal → 1 / x, for a runtime that computes Reciprocal wrong.
- ``rounded_weight``: a weight whose integers are chosen already: it takes their memory, not that of real numbers.
"""
