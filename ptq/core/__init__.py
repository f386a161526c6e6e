"""Data and rules that every stage shares: errors, integer types, the operator table, targets, the plan, files.

Its files:

errors: every error that a user may see, with its exit code
types: integer types, and the parameters of a quantized tensor
plan: all decisions about a model as data
plan_entries: entries of a plan's JSON document
targets: one row for each runtime
files: checks before reading; writing of files, which appear complete or not at all
decibels: ratios of energies in decibels: +6 dB halves the amplitude of an error
json_text: JSON text of documents
lazy_modules: modules of other packages that load when they are first used, in a process of ptq
memory: return of freed memory to the operating system between two stages
ops: one row for each ONNX operator that can be quantized
opset_changes: differences between older opsets and the newest: attributes that became inputs, types that came later
opspec: row type of the operator table, and the values of its columns
option_checks: checks of option values, for Python and the command line alike
preprocess_record: the record of a preprocessing, as statistics, plans and quantized models carry it
preprocess_wording: one line about a preprocessing, for the reports of every format
record: small JSON objects that travel with a model, with statistics and with a plan
remote: files in object stores and on servers, by URL: read whole or in part, and written
rounding: rounding of floats that numpy lacks
run_options: how a job runs: threads, batch sizes, and who is informed of its progress
same_padding: what padding SAME adds to an image
stages: names of the stages of a quantization
target: what a runtime computes on integers, and in which form it reads them: the row type of the target table
topics: the symptoms that docs/troubleshooting.md explains; messages name the section that helps
union_find: groups of elements that are united pair by pair
wording: numbers with nouns and units, and counts of operators, in sentences
"""
