"""Attribution: the error that each rounding causes in the outputs, and the nodes to keep in float for it.

quantized_sources    the error sources of a quantized model
error_injection      output error of the float model with chosen rounding errors added
error_attribution    the share of the output error that each error source causes
float_candidates     sets of nodes to keep in float, ranked by gain and cost
float_cost           the time that float nodes cost
float_reasons        the reason that a plan gives for such a node
"""
