"""Results on the terminal, and in short for Markdown.

screen        console, tables and numbers of all results
report        report of ``quantize``
tables        evaluation, nodes and statistics
drops         accuracy drops, budgets and sensitivity rankings
comparison    comparison of two models
frontier      points of a frontier
benchmark     times of models
runtime       where a runtime runs each node
verification  verification, conversion and portability
findings      findings of ``lint``
operators     operator table
provenance    how a quantized model was made
summaries     evaluation and verification in short, for Markdown
"""
