"""Decisions by trials on samples, before and after the solver; not ONNX graph optimization.

options                 what the user asks of a quantization
effort                  how many samples and runs each decision may take
earlier_run             statistics or a plan of an earlier run
job                     one quantization before calibration: model, samples, options
pipeline                the first stages of a quantization, which `quantize`, `frontier` and `sensitivity` share
output_error            error of the model outputs with activations rounded in one way or another
significance            test whether one output error is significantly lower than another
range_candidates        the parameters that each range method gives a scale group
range_search            a range method for each tensor, by output error
channel_families        solver for the factors of channels that share scales
smoothquant_factors     factors that equalize the channels that matrix products read (SmoothQuant)
equalization            equalization of channels: candidates in a race (cross-layer equalization, SmoothQuant)
outlier_channels        channels of a tensor that reach much farther than the others
outlier_splitting       the stage that computes outlier channels in float (LLM.int8)
compensation_fit        weights that compensate the error of their inputs, by ridge regression
staged_run              a graph run in stages, each from the values that the stage before left
compensation            the stage that re-fits layers to their quantized inputs
mixed_precision         which nodes stay float: error attribution, the rule of the knee, accuracy budget
self_check              check of the result, and fallback to float of nodes that fail

Further files:

decision_log            the decisions of a quantization as lines of the log
error_energy            energy of the error of one output, also where its length or values are lost
preference              how much speed may be spent on accuracy: the rule that keeps nodes float
"""
