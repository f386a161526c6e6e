"""Equalization of channels: candidates, which are models with scaled channels, and the race that chooses one.

equalization_factors  the channel families of a graph, and their factors
layer_pair_factors    factors of the channels between two layers with one scale for each weight
candidate_statistics  statistics of a candidate, from the plain model's values
candidate_evaluation  the output error of a candidate, by its best range method
contender             a candidate in a race, and the rule that ends it
candidates            race between equalized models by cross-validation
equalization          the stage: the candidates of a job, and the one that wins
"""
