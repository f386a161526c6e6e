"""Other channel scales for the same function, and separate products for outlier channels.

Cross-layer equalization of pairs of layers:

- ``layer_pairs``: pairs of layers with homogeneous operators between them.
- ``cross_layer_equalization``: scales the channels of these pairs.
- ``absorb_high_bias``: constants before a Relu → the bias of the next layer.

Equalization of whole graphs:

- ``channel_ties``: groups of numbers, which stand for channels.
- ``per_channel_ops``: HardSwish and Add with factors of their own for each channel.
- ``channel_walk``, ``channel_groups``: groups of channels that must share a factor.
- ``boundary_scales``: factors that only one side of an int/float boundary sees.
- ``scale_channels``: multiplication of the channels by given factors.

Outlier channels:

- ``split_outliers``: products of outlier channels in float, after LLM.int8.

Further files:

- ``scaled_weight``: a large weight with scaled channels: it takes time instead of memory.
"""
