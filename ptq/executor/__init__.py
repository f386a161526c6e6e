"""Integer execution of a quantized graph: the numbers that its runtime computes, to the bit.

In reading order:

    executor          how a graph runs, step by step; the entry point
    program           what a quantized graph is as integer steps and float islands
    program_reader    how QDQ and QOperator graphs become steps
    padded_by_float   which Pad fills with a number that is no integer
    fused_clamps      clamps that LiteRT's files fuse into the operator before them
    float_islands     which parts compute in float, as models of their own
    lookup_tables     which float islands are tables of 256 entries
    schedule          in which order steps run, and when a tensor is released
    layout            how arrays and attributes change from channels first to channels last
    step_layout       which layout the arrays of a step have
    step_runner       how a step or an island is prepared, and what runs it
    arithmetics       how each runtime computes each operator
    row_independence  which steps may run on some rows of a batch at a time
    runtimes          models in other runtimes: OpenVINO, LiteRT, other providers of ONNX Runtime
    batch_parallel    which segments of the program run on pieces of a batch in parallel
    litert_comparison     a `.tflite` file in LiteRT compared with the integer executor, tensor by tensor
    tflite_description    what TensorFlow Lite's metadata say about a model, from those of the ONNX model
    tflite_export         a quantized graph of any form as a `.tflite` file
"""
