"""Mixed precision: which nodes stay float, by the error that each rounding causes in the outputs.

error_injection      output error of the float model with chosen rounding errors added
error_attribution    the share of the output error that each error source causes
float_candidates     sets of nodes to keep in float, ranked by gain and cost
float_trade          what float nodes gain and cost: the error and the times
float_cost           the time that float nodes cost
trials               quantizes with some nodes in float, and measures accuracy drops
budget_search        the fewest float nodes that meet an accuracy budget
model_times          estimated times of a model with some nodes in float
decisions            the share of decisions that a quantized model changes
kept_saving          what integers save of a file, and how much of it float nodes may take back
knee_frontier        the frontier that the rule of the knee sees
knee_sets            the sets of float nodes that the rule of the knee weighs, and those that it takes
float_choice         the set that the rule of the knee chooses
knee                 nodes that stay float without being asked for
frontier_points      the Pareto curve of sets of float nodes
frontier_error       the error that points are compared by: of logits, not of their probabilities
frontier_estimates   speed and error of each point, through the measured ones
float_reasons        the reason that a plan gives for such a node
sensitivity          `ptq.sensitivity`: nodes ranked by the gain of keeping each in float

Further files:

saved_decisions      decisions that float nodes save: counted with them and with all in integers
"""
