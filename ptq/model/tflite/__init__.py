"""LiteRT's `.tflite` files: their schema, their contents as an ONNX model, the interpreter that runs them.

- ``schema``: the flatbuffer classes of the package ``ai-edge-litert``, an optional dependency.
- ``parsed``: a file as plain data.
- ``graph_builder``, ``operators``, ``read``: a file as an ONNX model in QDQ form.
- ``interpreter``: a model in LiteRT's interpreter, with its reference kernels or its default ones.

`ptq.rewrite.tflite` writes these files.

Further files:

- ``crashes``: `.tflite` models that would end the process in LiteRT's kernels; they are refused.
- ``describe_orders``: which inputs and outputs a file stores in other axes than the ONNX model.
- ``image_operators``: LiteRT's convolutions, products, pools and resizing as ONNX nodes.
- ``moving_operators``: its operators that move elements.
- ``options``: which options of an operator are read; others are refused.
- ``sparse``: sparse constants as dense ones.
"""
