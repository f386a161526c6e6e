"""Element types and shapes behind operators that ONNX does not define, as ONNX Runtime infers them.

ONNX's shape inference stops at an operator of another domain: what it returns, and what is computed from that, has no
type. ONNX Runtime knows these operators. It infers from the model alone, so open axes stay open.
"""

from __future__ import annotations

import onnx_ir as ir

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import Value, get_name, get_operator
from ptq.model.session.session import Session
from ptq.model.session.session_tuning import SessionTuning

_NEVER_RUN = SessionTuning(
    memory_arena=False, busy_wait=False, copy_large_weights=False, copy_single_rows=False
)


def add_runtime_types(graph: Graph) -> None:
    """Declare the types and ranks that are unknown, in place; without unknown types nothing is loaded.

    Tensors inside sub-graphs stay as they are. So does everything if ONNX Runtime cannot load the model.
    """
    values = [v for node in graph.nodes for v in node.outputs if v.name]
    if all(value.type is not None for value in values):
        return
    unknown = {get_name(v): v for v in values if v.type is None or v.shape is None}
    exposed = graph.copy()
    exposed.add_outputs(unknown)
    try:
        found = Session(exposed, threads=1, optimize="none", tuning=_NEVER_RUN).output_types()
    except ModelError:  # the stage that runs the model says why
        return
    for name, (element_type, axes) in found.items():
        if name not in unknown or not (dtype := _ELEMENT_TYPES.get(element_type)):
            continue
        value = unknown[name]
        value.type = value.type or ir.TensorType(dtype)
        if value.shape is None and axes:  # none are those of a scalar, or unknown
            value.shape = ir.Shape(axes)


def explain_unknown_type(value: Value) -> str:
    """Text that names the operator behind which a value has no known type."""
    node = value.producer()
    while node is not None:
        before = next((v for v in node.inputs if v is not None and v.type is None), None)
        if before is None or before.producer() is None:
            return f"the type that {get_operator(node)} ({node.name}) returns is unknown"
        node = before.producer()
    return f"the type of {value.name} is unknown"


_ELEMENT_TYPES = {
    f"tensor({name})": dtype
    for name, dtype in {
        "float": ir.DataType.FLOAT,
        "bool": ir.DataType.BOOL,
        "string": ir.DataType.STRING,
        "double": ir.DataType.DOUBLE,
        "float16": ir.DataType.FLOAT16,
        "bfloat16": ir.DataType.BFLOAT16,
        "int8": ir.DataType.INT8,
        "int16": ir.DataType.INT16,
        "int32": ir.DataType.INT32,
        "int64": ir.DataType.INT64,
        "uint8": ir.DataType.UINT8,
        "uint16": ir.DataType.UINT16,
        "uint32": ir.DataType.UINT32,
        "uint64": ir.DataType.UINT64,
    }.items()
}
"""Element types by ONNX Runtime's names; sequences, maps and optional values have none."""
