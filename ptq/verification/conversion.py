"""Conversion of a quantized graph: QDQ ↔ ONNX Runtime's QLinear operators (QOperator form)."""

from __future__ import annotations

from collections.abc import Set

from ptq.core.errors import UnsupportedError, UsageError
from ptq.core.ops import OPS
from ptq.executor.executor import Executor
from ptq.executor.program import Step
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, get_operator
from ptq.model.qdq.qdq_units import find_quantized_source, match_supported_qdq_op
from ptq.rewrite.emit.allow_16_bits import allow_16_bits
from ptq.rewrite.emit.to_qlinear import has_ort_kernel, to_qlinear
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.rewrite.imported.qlinear_to_qdq import convert_qlinear_to_qdq
from ptq.rewrite.prepare.remove_unit_dilations import remove_unit_dilations
from ptq.rewrite.shift_to_uint8 import shift_activations_to_uint8, shift_pairs_to_uint8
from ptq.solver.recipe import QuantizedForm
from ptq.verification.equivalence import find_first_difference
from ptq.verification.node_status import NodeStatus, explain_float
from ptq.verification.ort_like_executor import list_steps_ort_runs_in_float

_IN_FLOAT = "ONNX Runtime computes it in float between quantizers"

_ZERO_POINT_BEFORE_ROUNDING = frozenset(["Add", "AveragePool", "Mul"])
"""Operators that add the zero point before rounding float32: 128 more can round differently next to a tie."""


def convert_graph(graph: Graph, form: QuantizedForm, *, integers: bool = False) -> Graph:
    """Convert a quantized graph to the given form, and prove that the integer function is the same.

    Inputs, outputs and integer tensors keep their names. Some operators stay unchanged:

    1. Operators without a QLinear kernel keep their quantizers (see `list_unconverted`).
    2. MatMulInteger, ConvInteger and DynamicQuantizeLinear keep their integers.
    3. In QOperator form, operators that ONNX Runtime computes in float in QDQ form keep their quantizers, so that
       ONNX Runtime's outputs stay the same too.

    Nodes that nobody reads are removed. ONNX Runtime counts them as readers: where a model has some, a value next to
    a rounding tie can differ by 1 LSB in the result.

    Where a sum, product or average pool has int8 tensors that ONNX Runtime shifts to uint8, the QOperator form has
    uint8 tensors.

    Args:
        graph: A quantized graph.
        form: ``qdq`` or ``qoperator``.
        integers: Convert the operators of case 3 too. Where int8 and uint8 activations meet, all become uint8 (128
            more). A value next to a rounding tie can then differ by 1 LSB.

    Raises:
        UsageError: The form is unknown.
        UnsupportedError: A QLinear operator has no QDQ form, or an output would change; the message says which and
            why.
    """
    if form not in ("qdq", "qoperator"):
        raise UsageError(f"form {form!r} is unknown; choose one of qdq, qoperator")
    if form == "qdq":
        source, converted = graph, convert_qlinear_to_qdq(graph)
        remove_unit_dilations(converted)
    else:
        float_names = {
            name
            for step in (() if integers else list_steps_ort_runs_in_float(graph))
            for name in step.outputs
        }
        source = (
            shift_activations_to_uint8(normalize_qdq(graph))
            if integers
            else _with_ort_uint8_pairs(graph, float_names)
        )
        converted = to_qlinear(source, float_names)
        allow_16_bits(converted)
    # before opset 13, per-channel scales raise the opset of the QDQ form only, so that the graphs are not comparable
    different = find_first_difference(source, converted) if graph.opset >= 13 else None
    if different is not None:
        raise UnsupportedError(
            f"in form {form}, output {different} would not be the same function; keep the model unchanged"
        )
    return converted


def _with_ort_uint8_pairs(graph: Graph, float_names: Set[str]) -> Graph:
    """Shift int8 to uint8 as ONNX Runtime does, if this changes integers.

    It does where an operator rounds differently in uint8, and where ONNX Runtime computes in float because int8 meets
    uint8.
    """
    source = normalize_qdq(graph)
    shifted, shifted_names = shift_pairs_to_uint8(source)
    steps = [step for step in Executor(graph).program.steps if isinstance(step, Step)]
    affected = {
        name
        for step in steps
        if step.op in _ZERO_POINT_BEFORE_ROUNDING or not float_names.isdisjoint(step.outputs)
        for name in (*step.inputs, *step.outputs)
    }
    return source if shifted_names.isdisjoint(affected) else shifted


def list_float_statuses(converted: Graph) -> tuple[NodeStatus, ...]:
    """Operators of a QDQ form that ONNX Runtime computes in float, although integer kernels exist."""
    why = f"{_IN_FLOAT}; a value next to a rounding tie can differ by 1 LSB"
    return tuple(
        NodeStatus(step.name, step.op, "float", why)
        for step in list_steps_ort_runs_in_float(converted)
    )


def list_unconverted(converted: Graph) -> tuple[NodeStatus, ...]:
    """Operators that stay between quantizers in the QOperator form, each with its reason."""
    statuses = []
    for node in converted.nodes:
        op = get_operator(node)
        if op in QUANTIZERS or all(find_quantized_source(value) is None for value in node.inputs):
            continue
        quantized = match_supported_qdq_op(node)
        if quantized is None:
            why = explain_float(node, OPS.__contains__)
        elif quantized.spec.qlinear is None:
            why = f"ONNX Runtime has no QLinear operator for {quantized.spec.op}"
        elif has_ort_kernel(quantized):
            why = _IN_FLOAT
        else:
            why = f"{_IN_FLOAT}: no QLinear operator supports these types or scales"
        statuses.append(NodeStatus(node.name or "", op, "float", why))
    return tuple(statuses)
