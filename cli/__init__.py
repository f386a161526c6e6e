"""Command line of ptq: parse options, call one verb of ptq, print its result.

The package is installed as ``ptq_cli``, because the module name ``cli`` is too general. In reading order:

main            the application
commands        one file for each command
options         options that several commands share, and ptq.toml
statistics      earlier statistics of ``calibrate``
given_files     the files that the running command reads, whatever option names them
outputs         checks of output paths, JSON, list of skipped samples
invocation      name and options of the running command
documents       JSON documents: header, result, errors
page            the page of a command
progress        progress on standard error
render          results on the terminal
verbosity       how much the running command prints
process         process boundary: exit codes, error line, standard streams
signals         SIGINT and SIGTERM
gates           results that fail what the user demands of them
github          job summaries and annotations
next_command    the command to run next
package_files   files that a wheel holds beside the code
lint_files      ``ptq lint`` for several files, for pre-commit
operator_table  operator table for people
one_line        text on one line
"""
