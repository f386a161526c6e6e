"""Mixed precision: which nodes stay float, by the error that each rounding causes in the outputs.

attribution          the error that each rounding causes, and the nodes to keep in float for it
float_trials         quantizes with some nodes in float, and measures accuracy drops
budget_search        the fewest float nodes that meet an accuracy budget
model_times          estimated times of a model with some nodes in float
float_trade          what float nodes gain and cost: the error and the times
frontier             the curve of sets of float nodes
knee                 nodes that stay float without being asked for
"""
