"""Command line of ptq: parse options, call one verb of ptq, print its result.

The package is installed as ``ptq_cli``, because the module name ``cli`` is too general. In reading order:

main                 the application and its commands; ``inspect`` and ``ops`` are written there
quantize, calibrate  one file for each command with many options
evaluate, compare, verify, sensitivity, convert, lint
options              options that several commands share
images               preprocessing options
inputs               option texts → Python values
statistics           earlier statistics of ``calibrate``
given_files          the files that the running command reads, whatever option names them
outputs              checks of output paths, JSON, list of skipped samples
configure, config    options from ptq.toml; ``ptq init``
invocation           name and options of the running command
documents            JSON documents: header, result, errors
document_header      what every document says about the run; errors
document_types       form of each document; schema.json is made of it
progress             progress on standard error: a bar, or lines without a terminal
progress_state       how far a job is: stage, share of the whole, rate
progress_lines       lines of a long job without a terminal, and its heartbeat
verbosity_options    options ``-v`` and ``-q`` of the commands that run models; lines of the log
verbosity            how much the running command prints
process              process boundary: exit codes, error line, standard streams
signals              SIGINT and SIGTERM
github               job summaries and annotations
summaries, render_comparison  results in short for Markdown; comparison on the terminal
render_report        report of ``quantize`` on the terminal
render_tables        evaluation, nodes and statistics on the terminal
render_findings      findings of ``lint`` on the terminal
render_operators     operator table on the terminal
render_provenance    how a quantized model was made, on the terminal
next_command         the command to run next
package_files        files that a wheel holds beside the code
render_drops         accuracy drops, budgets and sensitivity rankings on the terminal
render_verification  verification, conversion and portability on the terminal
lint_files           ``ptq lint`` for several files, for pre-commit
optable              operator table for people
screen, one_line     console, tables, numbers; text on one line
"""
