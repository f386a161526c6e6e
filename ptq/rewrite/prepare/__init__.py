"""Preparation of a float model: ``prepare`` holds the list ``PREPARE``; each other module is a rewrite or serves one.

Names, versions and shapes:

- ``name_dimensions``: names for nameless dimensions of inputs.
- ``upgrade_opset``: opset below 13 → 17.
- ``decompose_attention``: Attention → MatMul, Softmax, MatMul.
- ``fold_constants``: evaluation of constant nodes and static shapes. It uses ``check_nodes`` (invalid constants),
  ``evaluate_node`` (one node), ``node_shapes`` (shape inference), ``shape_inference`` (elements of shape tensors) and
  ``fold_shape_arithmetic`` (Reshape and Expand).
- ``fold_where``: Where between computed shapes with a constant condition → Concat.

Normal forms:

- ``separate_output_weights``: copies of weights that are graph outputs too.
- ``cast_to_float32``: float16, bfloat16 and float64 models in float32.
- ``einsum_to_matmul``: Einsum of two operands → MatMul.
- ``remove_no_ops``: removal of nodes without effect.
- ``cancel_transposes``: pairs of inverse Transposes around elementwise operators → the operators.
- ``bypass_concat``: Split or Slice of whole inputs of a Concat → those inputs.
- ``separate_pieces``: Reshape and Concat of joined tensors that are split later → the same of the pieces. It uses
  ``shape_readers`` (sizes of the joined tensor); both use ``locate_cut`` (places of Split and Slice).
- ``remove_unit_dilations``: AveragePool without dilations of 1, for imported models too.
- ``resolve_auto_pad``: auto_pad → pads.
- ``expand_axes``: axes of Resize and Pad → a value for each axis.
- ``fuse_pad_into_conv``: Pad → padding of the next nodes.
- ``reduce_mean_to_pool``: ReduceMean → GlobalAveragePool.
- ``normalize_gemm``: Gemm → product and bias.
- ``matmul_add_to_gemm``: MatMul and Add → Gemm.
- ``fuse_batchnorm``: BatchNormalization and arithmetic with constants → the layer before.
- ``add_zero_bias``: a bias for every layer.

Fusion and constants:

- ``fuse_layer_norm``, ``fuse_softmax``, ``fuse_activations``, ``fuse_prelu``: elementary operators → one operator.
  They use ``layer_norm_pattern`` and ``activation_pattern``.
- ``simplify_constant_ops``: Div, PRelu, Max and Min with a constant → Mul, LeakyRelu and Clip.
  It uses ``last_bits`` (where the last bit of a quotient decides).
- ``move_views``: Reshape, Squeeze and Transpose between a layer and its activation → behind the activation.
- ``fold_scale_forward``, ``fold_shift_forward``: Mul and Add with constants → the layers behind.
"""
