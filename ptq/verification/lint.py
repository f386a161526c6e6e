"""Does a quantized model, whoever made it, keep LiteRT's 8-bit specification? Each breach, with its clause.

The rules come from the operator table (``ptq.core.ops``) and the target's row (``ptq.core.targets``), as for
``ptq quantize --target litert``. ``ptq.verification.lint_rules`` compares a node with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.errors import UsageError
from ptq.core.ops import OPS, QLINEAR_FORMS
from ptq.core.targets import TARGETS, Target
from ptq.core.targets import get_target as target_of
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, Node, operator_of, spec_name
from ptq.model.qdq_units import quantized_op, quantized_source
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.rewrite.imported.qlinear_to_qdq import qlinear_to_qdq
from ptq.verification.lint_rules import Finding, check_operator, clause_name
from ptq.verification.node_status import reason_for_float

_INTEGER_OPS = ("MatMulInteger", "ConvInteger", "DynamicQuantizeLinear")


def lint_graph(graph: Graph, target: str = "litert") -> tuple[Finding, ...]:
    """What in a QDQ or QOperator model departs from the target's specification, in the graph's order.

    Raises:
        UsageError: There is no such target, or no specification of it.
        UnsupportedError: The model is older than quantizers.
    """
    row = target_of(target)
    if not row.follows_litert_spec:
        specified = " or ".join(
            name for name, other in TARGETS.items() if other.follows_litert_spec
        )
        raise UsageError(
            f"target {target!r} has no specification to lint against; choose {specified}"
        )
    linear = any(operator_of(node) in QLINEAR_FORMS for node in graph.nodes)
    read = normalize_qdq(qlinear_to_qdq(graph, partly=True) if linear else graph, biases=False)
    return tuple(finding for node in read.nodes for finding in _lint_node(node, row))


def _lint_node(node: Node, row: Target) -> Iterator[Finding]:
    op, name = operator_of(node), node.name or ""
    if op in QUANTIZERS:
        return
    output = node.outputs[0].name or ""
    spec = OPS.get(spec_name(node))
    if op in QLINEAR_FORMS:
        text = f"{op} has no form in ONNX's own operators here; it runs as ONNX Runtime has it"
        yield Finding(
            output, name, "unspecified", "int8 quantized operator specifications", text, "note"
        )
        return
    if spec is None or spec.litert is None:
        if op in _INTEGER_OPS:
            text = f"{op} finds its scale at run time; the specification knows constant scales only"
            yield Finding(output, name, "dynamic", "int8 quantized operator specifications", text)
        elif any(quantized_source(value) is not None for value in node.inputs):
            how = (
                "ptq computes it on integers, LiteRT in float"
                if quantized_op(node)
                else "it runs in float"
            )
            text = f"{op} has integers before it but no row in the specification; {how}"
            yield Finding(
                output, name, "unspecified", "int8 quantized operator specifications", text, "note"
            )
        return
    if quantized_op(node) is None and _has_integer_input(node):
        why = reason_for_float(node, lambda _: True)
        yield Finding(
            output, name, "float", clause_name(node, spec), f"runs in float: {why}", "note"
        )
    yield from check_operator(node, spec, row)


def _has_integer_input(node: Node) -> bool:
    return any(quantized_source(value) is not None for value in node.inputs)
