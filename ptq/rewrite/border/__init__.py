"""The border of a quantized ONNX model: element types of its inputs and outputs, and its batch.

- ``element_types``: integers or halves in place of float32, without the quantizers at the border; and back.
- ``float_border``: which inputs and outputs stay float.
- ``batch``: a batch of fixed size.
- ``apply``: both, as options ask.
"""
