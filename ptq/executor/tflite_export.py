"""A quantized graph of any form as a `.tflite` file.

`ptq.rewrite.tflite` writes the file. Tables of functions that LiteRT does not have come from the arithmetic
``litert``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.ops import QLINEAR_FORMS
from ptq.core.types import QuantParams
from ptq.executor.arithmetics import get_kernels
from ptq.executor.arithmetics.node_site import Site
from ptq.executor.tflite_description import describe_model
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.rewrite.border.element_types import without_casts_at_integers
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.rewrite.imported.qlinear_to_qdq import convert_qlinear_to_qdq
from ptq.rewrite.tflite.operations import Operation
from ptq.rewrite.tflite.write import DEFAULT_TFLITE, TfliteFile, TfliteOptions, write_tflite

ARITHMETIC = "litert"
"""The arithmetic that LiteRT's reference kernels compute on a file that ptq writes."""


def encode_tflite(graph: Graph, options: TfliteOptions = DEFAULT_TFLITE) -> TfliteFile:
    """The `.tflite` file of a quantized graph.

    Args:
        graph: A QDQ or QOperator graph with int8 activations, or a float graph.
        options: Types of inputs and outputs, and the batch.

    Raises:
        UnsupportedError: An operator has no form in LiteRT, or ``ai-edge-litert`` is not installed.
    """
    if options.io == "int8":
        graph = without_casts_at_integers(graph)
    return write_tflite(as_qdq(graph), options, make_table, describe_model(graph))


def as_qdq(graph: Graph) -> Graph:
    """The graph in the QDQ form from which its integer operators are read."""
    has_qlinear = any(get_operator(node) in QLINEAR_FORMS for node in graph.nodes)
    return normalize_qdq(convert_qlinear_to_qdq(graph) if has_qlinear else graph)


def make_table(o: Operation, before: QuantParams, after: QuantParams) -> NDArray[np.int8]:
    """The 256 results of a function of one value, from input −128 to 127."""
    site = Site(o.op, o.attrs, (before,), (after,), name=o.name)
    every = np.arange(-128, 128, dtype=np.int8)
    table: NDArray[np.int8] = get_kernels(ARITHMETIC)[o.op](site)([every])
    return table
