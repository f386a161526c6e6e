"""The verbs of ptq, one per file; the command line calls these. All are also names of `ptq`, which loads them late.

result = ptq.quantize("model.onnx", "images/")
result.save("model.int8.onnx")
print(result.report.to_markdown())

Of a float model:

quantize            the pipeline as a list of stages
calibrate           samples → statistics: the whole, or in several processes
merge_statistics    statistics of all shards of the samples
sensitivity         nodes ranked by the gain of keeping each in float
frontier            every trade of speed against error
tune                the time of each kernel on this machine

Of any model:

inspect             what would become of a float model, or how a quantized one was made; without data
evaluate            a model measured on samples
compare             two models on the same samples: accuracy, agreement, error, size and speed
benchmark           several models timed in turns

Of a quantized model of any tool:

verify              its integers in its runtime against those of the executor
portability         other integers on other processors
convert             another form with the same integer function
lint                where it breaks a target's specification

What only verbs use:

accuracy_options    what the user asks of a measurement of accuracy: metric or task, labels, budget
accuracy_doubts     doubts about a measured accuracy, the most serious first
expected_stages     the stages of `quantize` to come, for a progress bar
target_runtime      a quantized model in the runtime that it is for
speed_findings      reasons for slow integers, in the report
complete_report     what the report of `quantize` gets beyond what ran in ONNX Runtime
applied_preprocess  the preprocessing under which a model was quantized, and what differs from it
provenance          how the model was made, as a record in its metadata
build_result        records in the metadata, border, file → result of `quantize`
saved_frontier      result of `frontier`, and the files of it
kernel_times        the time of one kernel alone, in float and on integers
measured_model      the model of an evaluation in its runtime
compared_pair       both models of a comparison, each in its runtime
peak_memory         peak memory of a model in a process of its own
"""
