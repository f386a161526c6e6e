"""Post-training quantization for ONNX models."""
