"""Models in the runtimes that they are quantized for: ONNX Runtime's other providers, OpenVINO, LiteRT.

runtime: what a model in a runtime can do, and where its nodes run.
registry: the runtimes by name, the package that each needs, and how a model is opened.
provider_model: ONNX Runtime with another execution provider, such as Qualcomm's.
openvino_model: OpenVINO on the CPU.
litert_model: LiteRT's interpreter.

Further files:

host: the process that hosts a provider: it loads the model that its first message holds, and answers the others.
host_messages: messages between this process and one that hosts a runtime: a line of JSON, then arrays.
hosted_model: a model that a provider runs in a process of its own.
"""
