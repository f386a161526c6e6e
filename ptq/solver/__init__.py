"""Statistics and a recipe → plan → quantized graph.

recipe: the request for one quantization.
partition: which nodes are quantized, and which stay float.
scales: which tensors share a scale, and the scale and zero point of each.
solve: statistics and a recipe → a plan.
rounding: the integers of weights by second-order rounding (GPTQ).
quantizer: calibrated model, recipe and plan → quantized model.

Further files:

assign: statistics → which nodes are quantized, which tensors share a scale, and which need a range.
describe_weights: report lines on rounded and shared weights.
skipped_nodes: nodes that the user keeps float.
"""
