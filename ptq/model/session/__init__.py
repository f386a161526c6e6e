"""Graphs that run: sessions of ONNX Runtime, and what must be known before one opens.

crash_guard: which operands crash ONNX Runtime
custom_ops: operators of other domains that ONNX Runtime does not have
exact_sums: whether ONNX Runtime adds products of 8-bit integers exactly on this processor
single_row_weights: whether the matrix weights of a model multiply single rows, so that they need no packed copy
ort_value: values of ONNX Runtime that use the memory of a tensor
session_tuning: the settings of a session
session: `Session`: a graph loaded into ONNX Runtime
runtime_types: element types and shapes behind operators that ONNX does not define
exposed_session: a session that returns inner tensors
provider_session: ONNX Runtime with another execution provider than the CPU's, built in or from a plugin package
failure: whether the model or ptq caused an exception
"""
