"""A result for readers: verdict, sentences, and the sections of its page, one module each.

verdict         the report in five figures
report_wording  sentences that the terminal and the page share
html            the report of a quantization as one HTML page
html_evaluation an evaluation as a page
html_rankings   a sensitivity ranking, or a frontier, as a page

Sections, in the order of the page of a quantization; each fills blocks of `ptq.page`:

cards           the verdict
accuracy        every form of the model on the same samples, budget and search
changed         samples whose answer changed, with both answers
classes         accuracy of each class, and the confusion
graph           the graph and the strip of nodes; each node with its reason and its tensors
tensors         quantization error of each tensor, along the graph and as a table
frontier        the trade of speed against error, and the nodes that cause the error
values          histogram of a tensor with the range of every method
channels        weights by channel before and after equalization
nodes           the result of each node
making          what was done to the graph, data, preprocessing, versions
ranking         nodes by the accuracy that float regains

Further files:

estimate_wording  what a frontier and a ranking of nodes say below their tables, on the terminal and on the page
questions         the sections of docs/troubleshooting.md that the figures of a report lead to
result_page       a result of a verb that measures, as one self-contained HTML page: warnings, verdict, sections
"""
