"""Models in the runtimes that they are quantized for: ONNX Runtime's other providers, OpenVINO, LiteRT.

runtime: what a model in a runtime can do, and where its nodes run.
registry: the runtimes by name, the package that each needs, and how a model is opened.
provider_model: ONNX Runtime with another execution provider, such as Qualcomm's.
openvino_model: OpenVINO on the CPU.
litert_model: LiteRT's interpreter.
"""
