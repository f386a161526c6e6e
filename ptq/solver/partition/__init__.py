"""Precision of nodes for a target: quantized, or float with the reason.

kernel_limits: the uses of an operator that its integer kernels do not cover.
normalization_pattern: normalizations written in several operators: float, or 16 bits on qnn.
cost_table: measured times of ONNX Runtime's kernels.
cost_table_file: a table of times as a file.
shipped_tables: the tables that ptq ships, and which serves a processor.
kernel_key: the key of a kernel in a table of times.
cost_model: the time of one node, in float and on integers.
min_cut: the minimum cut of a flow network.
partition_cost: the cost of a partition of a graph, and the cheapest one.
first_layers: convolutions of few channels of an input that are faster in float.
input_arithmetic: sums and products of inputs with constants, which stay float.
partition: the nodes that are faster in float.
node_precision: the precision of a node by itself.
eligibility: the precision of every node, by all of the above.
model_time: the time of a whole model from its integer nodes.
boundaries: tensors between integers and float that may have one scale for each channel.

Further files:

float_layers: layers that OpenVINO computes faster in float: small first layers, and layers of one row.
padded_depthwise: depthwise convolutions whose integer kernel would subtract a zero point at padded borders.
positions: numbers that grow with the size of the input, such as the positions of a detector's grid of anchors.
residual_sums: sums of a convolution and a residual, on targets where the convolution's kernel adds the residual.
silu: SiLU, whose two operators are one kernel of ONNX Runtime in float.
unquantizable: what the statistics rule out: ranges too wide for 8 bits, divisors too near to zero.
"""
