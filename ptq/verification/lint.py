"""Lint: a quantized model of any tool against the published rules of a target.

Those of LiteRT's 8-bit quantization specification come from the operator table (``ptq.core.ops``) and the target
table (``ptq.core.targets``), as for ``ptq.quantize(target="litert")``; ``ptq.verification.lint_rules`` compares one
node with them. ``tensorrt_rules`` has those of TensorRT, and ``xnnpack_rules`` those of ONNX Runtime's XNNPACK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, cast

from ptq.core.errors import UsageError
from ptq.core.ops import QLINEAR_FORMS
from ptq.core.target import LintRules, Target
from ptq.core.targets import TARGETS, TargetName, get_target
from ptq.executor.arithmetics import get_arithmetic
from ptq.model.graph import Graph
from ptq.model.metadata import read_target
from ptq.model.node import QUANTIZERS, Node, get_operator, get_spec
from ptq.model.qdq.qdq_units import find_quantized_source, match_supported_qdq_op
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.rewrite.imported.qlinear_to_qdq import convert_qlinear_to_qdq
from ptq.verification.lint_rules import Finding, check_operator, get_clause_name
from ptq.verification.node_status import explain_float
from ptq.verification.tensorrt_rules import check_tensorrt
from ptq.verification.xnnpack_rules import check_xnnpack

_INTEGER_OPS = ("MatMulInteger", "ConvInteger", "DynamicQuantizeLinear")
_CHECKS: Mapping[LintRules, Callable[[Graph], Iterator[Finding]]] = {
    "tensorrt": check_tensorrt,
    "xnnpack": check_xnnpack,
}
_WHOLE_SPECIFICATION = "int8 quantized operator specifications"


def choose_rules(graph: Graph) -> TargetName:
    """The target whose rules a model should keep: the one that it records if that has rules, else ``litert``."""
    recorded = TARGETS.get(read_target(graph))
    return (
        "litert" if recorded is None or recorded.lint is None else cast("TargetName", recorded.name)
    )


def lint_graph(graph: Graph, target: str = "litert") -> tuple[Finding, ...]:
    """List findings of a QDQ or QOperator model against the target's published rules, in graph order.

    Raises:
        UsageError: The target is unknown, or has no rules.
        UnsupportedError: The model's opset has no quantizers.
    """
    row = get_target(target)
    if row.lint is None:
        specified = ", ".join(name for name, other in TARGETS.items() if other.lint is not None)
        raise UsageError(f"target {target} has no rules to check; choose one of {specified}")
    if row.lint != "litert":
        return tuple(_CHECKS[row.lint](graph))
    has_qlinear = any(get_operator(node) in QLINEAR_FORMS for node in graph.nodes)
    normalized = normalize_qdq(
        convert_qlinear_to_qdq(graph, partly=True) if has_qlinear else graph, biases=False
    )
    found = [finding for node in normalized.nodes for finding in _lint_node(node, row)]
    return (*found, *_find_lacking_in_micro(normalized.nodes))


def _find_lacking_in_micro(nodes: Sequence[Node]) -> Iterator[Finding]:
    """One note for each operator that LiteRT has and tflite-micro, on microcontrollers, does not load."""
    for op, name in get_arithmetic("tflite-micro").lacking.items():
        having = [
            node for node in nodes if get_operator(node) == op and match_supported_qdq_op(node)
        ]
        if having:
            more = f", and {len(having) - 1} more" if len(having) > 1 else ""
            text = f"tflite-micro loads no file with {name} ({op}{more}); on microcontrollers replace it"
            yield _build_node_finding(
                having[0], "microcontroller", _WHOLE_SPECIFICATION, text, "note"
            )


def _lint_node(node: Node, row: Target) -> Iterator[Finding]:
    op = get_operator(node)
    if op in QUANTIZERS:
        return
    spec = get_spec(node)
    if op in QLINEAR_FORMS:
        text = f"{op} has no QDQ form here; it runs as in ONNX Runtime"
        yield _build_node_finding(node, "unspecified", _WHOLE_SPECIFICATION, text, "note")
        return
    if spec is None or spec.litert is None:
        if op in _INTEGER_OPS:
            text = f"{op} computes its scale at run time; the specification allows only constant scales"
            yield _build_node_finding(node, "dynamic", _WHOLE_SPECIFICATION, text, "error")
        elif _has_integer_input(node):
            runs = (
                "ptq runs it in integers, LiteRT in float"
                if match_supported_qdq_op(node)
                else "it runs in float"
            )
            text = f"{op} has an integer input but is not in the specification; {runs}"
            yield _build_node_finding(node, "unspecified", _WHOLE_SPECIFICATION, text, "note")
        return
    if match_supported_qdq_op(node) is None and _has_integer_input(node):
        text = f"runs in float: {explain_float(node, lambda _: True)}"
        yield _build_node_finding(node, "float", get_clause_name(node, spec), text, "note")
    yield from check_operator(node, spec, row)


def _build_node_finding(
    node: Node, rule: str, clause: str, text: str, severity: Literal["error", "note"]
) -> Finding:
    return Finding(
        tensor=node.outputs[0].name or "",
        node=node.name or "",
        rule=rule,
        clause=clause,
        text=text,
        severity=severity,
    )


def _has_integer_input(node: Node) -> bool:
    return any(find_quantized_source(value) is not None for value in node.inputs)
