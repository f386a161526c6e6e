"""Evaluation: float, int8 and integers on the same samples → metrics, intervals, diagnoses, report.

In reading order:

metrics              fidelity to the float model and accuracy, sample by sample
intervals            confidence intervals and McNemar's test
drop                 drop of a metric against float, and accuracy budgets
user_metric          drops of the user's own metric
runs                 models as functions, and their outputs on samples
batching             how many samples a model may run at once
tasks                what outputs decide: text, tokens, vectors, masks, boxes
answers              what a model answers on one sample, for readers
changed_samples      samples whose answer changes
measurements         what several forms of one model measure, as data
form_meters          accuracy and fidelity of each form, and what decides
evaluate             several engines side by side on the same samples
checks               known mistakes of models, data and use
diagnostics          known causes of large quantization errors
confusion            right samples by class, and which accuracy is low
task_wording         the task and its figures in words
report               the figures of the report, as data
ranking              result of ``ptq.sensitivity``
result               result of ``ptq.quantize``
comparison           result of ``ptq.compare``
sparklines           histograms for a terminal
quantized_forms      float, int8 and integers of one model on its evaluation samples
build_report         evaluation, checks and rows → report
html_elements        tables and lists of HTML
presentation         verdict, sentences and HTML page of a result
comparison_page      a comparison of two models in words and as a page
exports              `Report`, and its other formats: Markdown, flat metrics, pandas

Further files:

budget               accuracy budgets: a measured drop compared with the largest loss that the user accepts
diagnosis            one warning of a report: what was found, where, and what to do
early_task           whether a task that is asked for fits the model, before the quantization
form_titles          what the forms of a model are called in tables
frontier             the trade of speed against error: points of a Pareto curve
speed                speed of one model relative to another, measured in interleaved runs, with an interval
"""
