"""Rewrites: graph → graph with the same function, one rewrite a module.

Modules that all sub-packages share:

- ``edit``: basic edits of nodes, constants and attributes.
- ``match``: predicates for patterns of operators.
- ``change``: the contract of a rewrite, and the sentences of the report.
- ``shift_to_uint8``: int8 tensors as uint8 tensors.

Sub-packages in the order of the pipeline:

- ``prepare``: float model → prepared float model (constant folding, fusion, normal forms).
- ``equalize``: prepared model → prepared model with other channel scales or split outlier channels.
- ``emit``: prepared model and plan → quantized model, QDQ or QOperator.
- ``imported``: quantized model of any tool → the form from which its integer operators are read.
- ``instrument``: models for measurements, with scales as inputs or with errors as outputs.

A `ptq.rewrite.change.Rewrite` takes a graph, changes it in place and returns its changes. The ordered lists of
rewrites are ``PREPARE`` in ``prepare.prepare`` and ``NORMALIZE_QDQ`` in ``imported.normalize_qdq``. Functions that
need more than the graph, for example a plan, return a changed copy. Helpers that say "in place" return nothing.

Further files:

- ``border``: the border of a quantized ONNX model: element types of its inputs and outputs, and its batch.
- ``tflite``: quantized graph → LiteRT's `.tflite` file, without TensorFlow.
"""
