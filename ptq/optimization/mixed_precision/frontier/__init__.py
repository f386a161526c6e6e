"""The frontier: sets of float nodes, each with the time and the error of the whole model.

frontier_points      the Pareto curve of sets of float nodes
frontier_error       the error that points are compared by: of logits, not of their probabilities
frontier_estimates   speed and error of each point, through the measured ones
"""
