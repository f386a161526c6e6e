"""Batching: how many samples a model may run at once, so that each has the result that it has alone.

In reading order:

batch_size       the number of samples, and graphs that keep samples apart
batch_layout     where samples stand within an axis
sample_positions positions along the batch that are not those of the samples
mixed_samples    nodes that compute a value from several samples of a batch
"""
