"""Weights of nodes: their layout, who shares them, and what they hold.

layer_weights: the layout of the weights of Conv, ConvTranspose, Gemm and MatMul
matrix_layout: the layout of the right operand of Gemm and MatMul, and depthwise weights, from shapes and attributes
shared_weights: which nodes share one weight
channel_affine: which nodes compute y = a·x + b by channel
finite_constants: whether a constant holds NaN or infinity, found once for each tensor
"""
