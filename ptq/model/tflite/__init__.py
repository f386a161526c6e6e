"""LiteRT's `.tflite` files: their schema, the interpreter that runs them.

- ``schema``: the flatbuffer classes of the package ``ai-edge-litert``, an optional dependency.
- ``interpreter``: a model in LiteRT's interpreter, with its reference kernels or its default ones.

`ptq.rewrite.tflite` writes these files.
"""
