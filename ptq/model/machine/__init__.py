"""This machine, as far as results depend on it.

processor: which kind of processor this is
ort_version: which ONNX Runtime is installed
maker: versions and kind of processor, as far as float results depend on them
"""
