"""Values of ONNX Runtime that use the memory of a tensor."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime

_NUMPY_KINDS = "biuf"
"""Kinds of numpy's own types. Others, for example bfloat16, are passed as integers of the same size."""


def as_ort_value(tensor: ir.TensorProtocol) -> onnxruntime.OrtValue:
    """The tensor's own memory as a value of ONNX Runtime."""
    array = np.ascontiguousarray(tensor.numpy())
    if array.dtype.kind in _NUMPY_KINDS:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    integers = array.view(f"u{array.dtype.itemsize}")
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(integers, int(tensor.dtype))
