"""Evaluation: float, int8 and integers on the same samples → metrics, intervals, diagnoses, report.

In reading order:

metrics              fidelity to the float model and accuracy, sample by sample
intervals            confidence intervals and McNemar's test
drop                 drop of a metric against float, and accuracy budgets
user_metric          drops of the user's own metric
engines              a model as a function: ONNX Runtime, integer executor, float reference
tasks                what outputs decide: text, tokens, vectors, masks, boxes
answers              what a model answers on one sample, for readers
changed_samples      samples whose answer changes
measurements         what several forms of one model measure, as data
model_outputs        the outputs of a model on samples, on all processes of the run
batching             how many samples a model may run at once
mixed_samples        nodes that compute a value from several samples of a batch
sample_positions     positions along the batch that are not those of the samples
batch_layout         where samples stand within an axis
run_forms            the outputs of several forms in batches, on all processes of the run
outputs_ahead        outputs of the float model that idle workers compute ahead
form_meters          accuracy and fidelity of each form, and what decides
baseline_check       models that get hardly any label right before a change
evaluate             several engines side by side on the same samples
diagnostics          known causes of large quantization errors
confusion            right samples by class, and which accuracy is low
sample_count_check   evaluations on too few samples
output_check         outputs whose figures say little: NaN, numbers taken for decisions
input_range_check    samples on another scale than in training
input_shift_check    evaluation samples on another scale than the calibration samples
softmax_length_check attention weights whose range holds for one length only
empty_cache_check    decoders that are calibrated without their first step
preprocessing_check  images prepared in another way than in training
record_check         two models that record different preprocessing
label_permutation    classes in another order than the model's
overlap_check        evaluation samples that are also calibration samples
overflow_check       float models that overflow on a sample
task_wording         the task and its figures in words
report_rows          rows of the report: one for each tensor and node
report               the figures of the report
ranking              result of ``ptq.sensitivity``
inspection           result of ``ptq.inspect``
result               result of ``ptq.quantize``
sparklines           histograms for a terminal
session_cache        open sessions of the float and the quantized model
quantized_forms      float, int8 and integers of one model on its evaluation samples
build_report         evaluation, checks and rows → report
html_elements        tables and lists of HTML
presentation         verdict, sentences and HTML page of a result
comparison_page      a comparison of two models in words and as a page
exports              `Report`, and its other formats: Markdown, flat metrics, pandas

Further files:

benefit_check        quantized models that are no improvement: larger or slower than float
budget               accuracy budgets: a measured drop compared with the largest loss that the user accepts
compared_pair        both models of a comparison, each in its runtime
compare              two models on the same samples: accuracy, agreement, error, size and speed
diagnosis            one warning of a report: what was found, where, and what to do
form_titles          what the forms of a model are called in tables
frontier             the trade of speed against error: points of a Pareto curve
noise_check          models that draw random numbers
label_mismatch       labels that do not match the predictions
litert_check         the check of a `.tflite` file in LiteRT before it is returned
litert_result        result of the check of a `.tflite` file in LiteRT
mode_check           models that were exported in training mode
relation_check       doubt that two models belong together, or that the one to compare with is a float model
speed                speed of one model relative to another, measured in interleaved runs, with an interval
"""
