"""The border of a quantized ONNX model: element types of its inputs and outputs, its batch, and what it declares.

- ``element_types``: integers or halves in place of float32, without the quantizers at the border; and back.
- ``float_border``: which inputs and outputs stay float.
- ``batch``: a batch of fixed size.
- ``apply``: both, as options ask.
- ``open_shapes``: the shapes of inner tensors that a written model leaves out.
"""
