"""Checks: known mistakes of models, data and use, each found by one file, as a `Diagnosis`.

Of the data:

sample_count_check   evaluations on too few samples
overlap_check        evaluation samples that are also calibration samples
input_range_check    samples on another scale than in training
input_shift_check    evaluation samples on another scale than the calibration samples
preprocessing_check  images prepared in another way than in training
label_mismatch       labels that do not match the predictions
label_permutation    classes in another order than the model's

Of the float model:

mode_check           models that were exported in training mode
noise_check          models that draw random numbers
overflow_check       float models that overflow on a sample
output_check         outputs whose figures say little: NaN, numbers taken for decisions
baseline_check       models that get hardly any label right before a change
softmax_length_check attention weights whose range holds for one length only
empty_cache_check    decoders that are calibrated without their first step

Of two models:

record_check         two models that record different preprocessing
relation_check       doubt that two models belong together, or that the one to compare with is a float model
"""
