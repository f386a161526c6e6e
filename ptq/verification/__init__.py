"""Verification of any tool's quantized model: compare integers, convert forms, lint, portability.

In reading order:

tensor_comparison    the comparison on a part of the samples, as a job for all processes
verify               ONNX Runtime's integers against the executor's, tensor by tensor
node_status          whether each node runs in integers, and why not
changed_outputs      why outputs change when the integers are read
ort_fusions          which tensors ONNX Runtime computes in float, from its own optimized graph
ort_like_executor    an executor that leaves in float what ONNX Runtime leaves in float
ulp_order            distance between floats in units in the last place
portability          headroom, saturation and ties: other integers on other processors
conversion           QDQ ↔ QLinear operators
equivalence          proof that two quantized graphs compute the same integers
lint                 a quantized model against the rules of LiteRT, TensorRT or XNNPACK
wording              a verification in sentences
html                 a verification as one HTML page
lint_rules           the rules for one operator

Further files:

lint_preprocess      the preprocessing that a model's metadata record, against the model's input
runtime_check        a quantized model in the runtime that it is for, tensor by tensor, against what its file says
slow_in_litert       operators whose 8-bit integers are slow in LiteRT, because XNNPACK takes them in float only
slow_integers        the usual reasons why integers are slow in ONNX Runtime, read from its own optimized graph
tensorrt_rules       rules of TensorRT's ONNX importer and of its guide to explicit quantization
verify_tflite        verification of a `.tflite` file: LiteRT's kernels against the executor
xnnpack_rules        which quantized nodes ONNX Runtime's XNNPACK provider takes, and why not the others
"""
