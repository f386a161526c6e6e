"""Equalization of channels: forms of a model with scaled channels, and the race that chooses one.

equalization_factors  the channel families of a graph, and their factors
layer_pair_factors    factors of the channels between two layers with one scale for each weight
form_statistics       statistics of a form with scaled channels, from the plain model's values
form_evaluation       the output error of a form, by its best range method
contender             a form of a model in a race, and the rule that ends it
candidates            race between equalized models by cross-validation
equalization          the stage: the forms of a job, and the one that wins
"""
