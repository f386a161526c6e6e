"""Integers of weights by second-order rounding (GPTQ).

weighted_sums: the weighted sums of a Conv, Gemm or MatMul, and the integers that they add.
gptq_rounding: rounding of a weight by the covariance of its inputs.
damping: the damping of a covariance, by the error on held-out samples.
gptq: the rounding of all weights of a graph, chosen on held-out samples.
"""
