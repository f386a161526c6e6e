"""Runs: models as functions, and their outputs on samples, on all processes of the run.

In reading order:

engines         a model as a function: ONNX Runtime, integer executor, float reference
reference       outputs of the float model on one sample
model_outputs   the outputs of a model on samples
run_forms       the outputs of several forms of one model in batches
session_cache   open sessions of the float and the quantized model
outputs_ahead   outputs of the float model that idle workers compute ahead
"""
