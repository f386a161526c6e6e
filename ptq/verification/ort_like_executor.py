"""How does the executor compute in float what ONNX Runtime computes so? Told by ONNX Runtime's own optimized graph.

ONNX Runtime puts an integer kernel in the place of DequantizeLinear → operator → QuantizeLinear where its rules
allow: not for int8 beside uint8, nor everywhere around an int8 tensor with two readers.
"""

from __future__ import annotations

from ptq.core.errors import ModelError
from ptq.core.ops import OPS
from ptq.executor.arithmetics import INT8_AS_UINT8
from ptq.executor.executor import Executor
from ptq.executor.program import Program, Step
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.rewrite.shift_to_uint8 import pairs_to_uint8
from ptq.verification.ort_fusions import float_tensors, integer_products


def executor_matching_ort(graph: Graph, arithmetic: str = "ort") -> Executor:
    """An executor that leaves float what ONNX Runtime, all optimizations on, leaves float in this graph.

    Other arithmetics than ONNX Runtime's own compute in integers all they can.

    Raises:
        ModelError: ONNX Runtime does not take the model.
        UsageError: There is no such arithmetic.
    """
    executor = Executor(graph, arithmetic)
    names = comparable_tensors(executor.program, graph)
    if arithmetic not in INT8_AS_UINT8 or names.isdisjoint(executor.program.params):
        return executor
    executor, floats = with_integer_products(executor, graph)
    exposed, _ = pairs_to_uint8(graph)
    exposed.add_outputs(comparable_tensors(executor.program, graph))
    further = float_tensors(exposed)
    return Executor(graph, arithmetic, floats | further) if further else executor


def steps_ort_runs_in_float(graph: Graph) -> tuple[Step, ...]:
    """The steps that have integer kernels and that ONNX Runtime computes in float all the same.

    None where ONNX Runtime does not take the model.
    """
    try:
        like = executor_matching_ort(graph)
    except ModelError:
        return ()
    kept = {name for step in like.program.steps if isinstance(step, Step) for name in step.outputs}
    return tuple(
        step
        for step in Executor(graph).program.steps
        if isinstance(step, Step) and kept.isdisjoint(step.outputs)
    )


def with_integer_products(executor: Executor, graph: Graph) -> tuple[Executor, frozenset[str]]:
    """The executor without the products that ONNX Runtime computes in float, and their names."""
    floats = _real_products(executor.program)
    if floats:
        floats -= integer_products(graph)
    return (Executor(graph, executor.arithmetic, floats) if floats else executor), floats


def comparable_tensors(program: Program, graph: Graph) -> set[str]:
    """The tensors of the program that the graph has too: integers, and the real results of products of them."""
    present = {name_of(v) for node in graph.nodes for v in node.outputs if v.name}
    made = {name for step in program.steps for name in step.outputs}
    return (made & program.params.keys() | _real_products(program)) & present


def _real_products(program: Program) -> frozenset[str]:
    return frozenset(
        name
        for step in program.steps
        if isinstance(step, Step) and step.op in OPS and OPS[step.op].float_output_form is not None
        for name in step.outputs
        if name not in program.params
    )
