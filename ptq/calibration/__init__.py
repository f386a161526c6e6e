"""Calibration: runs the float model on samples and collects statistics of its tensors.

collect             one pass over the samples: histograms, extremes and channel sums of every tensor
observe_splits      the same of several splits in one pass, on all processes of the run
checkpoint          the file that an interrupted calibration continues from
calibration         statistics for a model: from a file, or collected as a whole or in folds
identify            which samples were counted, and which versions and processor counted them
collect_shards      the same on workers: each counts shards, merged as they arrive
shard_checkpoint    the file that an interrupted calibration on workers continues from
channel_spreads     extremes and mean squares by channel, for equalization and outlier splitting
measured_tensors    values of tensors from which the statistics of candidates with scaled channels follow
covariance_job      covariances of layer inputs over a part of the samples, as a job for all processes
input_covariance    a second pass: covariances of layer inputs, for second-order weight rounding
rounding_samples    the samples of that pass, which error compensation runs too

Further files:

kept_source         the samples that statistics keep, as samples to calibrate on
memory_rounds       calibration within a limit of memory
"""
