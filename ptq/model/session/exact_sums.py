"""Whether ONNX Runtime adds products of 8-bit integers exactly on this processor."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx.parser
import onnxruntime

from ptq.core.targets import TARGETS
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import INSTALLED, Version
from ptq.model.metadata import read_target
from ptq.model.node import get_dtype, get_name, require_constant
from ptq.model.session.session_tuning import DEFAULT_TUNING, make_session_options

_EXACT_SINCE: Version = (1, 32)
"""ONNX Runtime whose option was tried with all targets; 1.31 lacks more kernels for it."""
_SATURATION_MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
pair (uint8[1, 2] a) => (int32[1, 1] c) <int8[2, 1] b = {127, 127}> { c = MatMulInteger(a, b) }
"""


@cache
def has_exact_int8_sums() -> bool:
    """Whether ONNX Runtime adds uint8 × int8 products exactly on this processor.

    On x86 without VNNI it adds pairs of products in int16, which saturates (vpmaddubsw): 2 · 255·127 is 32767.
    """
    options = make_session_options(
        DEFAULT_TUNING, threads=1, optimize="all", keeps_16_bits=False, adds_exactly=False
    )
    model = onnx.parser.parse_model(_SATURATION_MODEL).SerializeToString()
    pair = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    [total] = pair.run(None, {"a": np.full((1, 2), 255, np.uint8)})
    return int(total[0, 0]) == 2 * 255 * 127


def can_add_exactly() -> bool:
    """Whether a session of the installed ONNX Runtime adds products exactly on every processor if it is asked to."""
    return has_exact_int8_sums() or INSTALLED >= _EXACT_SINCE


def needs_exact_sums(graph: Graph) -> bool:
    """Whether a session must be asked to add exactly, as the runtime that the model is for does."""
    row = TARGETS.get(read_target(graph))
    as_it_is = row is None or row.int16_pairs_saturate or has_exact_int8_sums()
    return not as_it_is and can_add_exactly()


def split_shared_integers(graph: Graph) -> Graph:
    """A copy of the graph whose nodes share no int8 constant.

    To add exactly, ONNX Runtime 1.32 turns each to uint8 for its reader, and refuses a second reader.
    """
    own = graph.copy()
    for value in list(own.model.graph.initializers.values()):
        if get_dtype(value) == np.int8:
            for use in list(value.uses())[1:]:
                copied = own.add_constant(require_constant(value), get_name(value))
                use.node.replace_input_with(use.idx, copied)
    return own
