"""Executor that computes in float what ONNX Runtime computes in float, according to its optimized graph.

ONNX Runtime puts an integer kernel in the place of DequantizeLinear → operator → QuantizeLinear only if its rules
allow it. It does not where int8 meets uint8, and not always around an int8 tensor with two readers.
"""

from __future__ import annotations

from ptq.core.errors import ModelError
from ptq.core.ops import OPS
from ptq.executor.arithmetics import get_arithmetic
from ptq.executor.executor import Executor
from ptq.executor.program import Program, Step
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.rewrite.shift_to_uint8 import shift_pairs_to_uint8
from ptq.verification.ort_fusions import find_integer_products, find_tensors_from_float


def build_ort_like_executor(graph: Graph, arithmetic: str = "ort") -> Executor:
    """Build an executor that runs in float what ONNX Runtime, with all optimizations, runs in float in this graph.

    Arithmetics other than ONNX Runtime's run in integers whatever they can.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
        UsageError: The arithmetic is unknown.
    """
    executor = Executor(graph, arithmetic)
    names = find_comparable_tensors(executor.program, graph)
    as_uint8 = get_arithmetic(arithmetic).computes_int8_as_uint8
    if not as_uint8 or names.isdisjoint(executor.program.params):
        return executor
    executor, float_names = with_integer_products(executor, graph)
    exposed, _ = shift_pairs_to_uint8(graph)
    exposed.add_outputs(find_comparable_tensors(executor.program, graph))
    further = find_tensors_from_float(exposed)
    return Executor(graph, arithmetic, float_names | further) if further else executor


def list_steps_ort_runs_in_float(graph: Graph) -> tuple[Step, ...]:
    """Steps with integer kernels that ONNX Runtime computes in float nevertheless.

    The result is empty if ONNX Runtime cannot load the model.
    """
    try:
        matching = build_ort_like_executor(graph)
    except ModelError:
        return ()
    integers = {
        name for step in matching.program.steps if isinstance(step, Step) for name in step.outputs
    }
    return tuple(
        step
        for step in Executor(graph).program.steps
        if isinstance(step, Step) and integers.isdisjoint(step.outputs)
    )


def with_integer_products(executor: Executor, graph: Graph) -> tuple[Executor, frozenset[str]]:
    """The executor with ONNX Runtime's float products in float too, and the names of their results."""
    float_names = _find_float_results(executor.program)
    if float_names:
        float_names -= find_integer_products(graph)
    if not float_names:
        return executor, float_names
    return Executor(graph, executor.arithmetic, float_names), float_names


def find_comparable_tensors(program: Program, graph: Graph) -> set[str]:
    """Tensors that program and graph both have: integers, and float results of products of integers."""
    present = {get_name(v) for node in graph.nodes for v in node.outputs if v.name}
    computed = {name for step in program.steps for name in step.outputs}
    return (computed & program.params.keys() | _find_float_results(program)) & present


def _find_float_results(program: Program) -> frozenset[str]:
    return frozenset(
        name
        for step in program.steps
        if isinstance(step, Step) and step.op in OPS and OPS[step.op].float_output_form is not None
        for name in step.outputs
        if name not in program.params
    )
