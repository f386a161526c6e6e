"""One self-contained HTML page from plain blocks: texts, tables, plots, histograms, a graph.

In reading order:

anchors       identifiers of nodes and tensors in links
blocks        texts, cards, tables and matrices
axis          round numbers along an axis
plot          a plot of points and lines
histogram     a histogram with thresholds
channels      magnitudes of channels before and after
layout        positions of a graph's nodes
network       a graph whose nodes are opened one at a time
page          a page: cards, warnings and sections of blocks
render        page → HTML, with the templates of this package

The package knows nothing of quantization: `ptq.evaluation` and `ptq.verification` fill the blocks.
"""
