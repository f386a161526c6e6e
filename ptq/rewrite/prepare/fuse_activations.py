"""Elementary operators → HardSwish (opset 14), Mish (opset 18) or Gelu (opset 20).

`activation_pattern` has the equations. The named operator rounds to 8 bits once; the separate operators round up to
five times. A constant of several elements among the factors becomes a Mul behind the function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_dtype, get_name
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import list_outputs_between
from ptq.rewrite.prepare.activation_pattern import ActivationPattern, find_activations
from ptq.rewrite.prepare.upgrade_opset import explain_old_opset, try_upgrade_opset

MIN_OPSETS = {"HardSwish": 14, "Mish": 18, "Gelu": 20}


def fuse_activations(
    graph: Graph, *, keep_opset: bool = False, float_functions: bool = False
) -> list[Change]:
    """Replace the operators of HardSwish, Mish and Gelu by one node, in place; raises the opset as needed.

    Declines if ONNX's converter cannot raise the opset, or if ``keep_opset`` is set and it would have to. With
    ``float_functions`` they are computed in float whatever their form: the opset stays, and nothing is said.
    """
    needed = max((MIN_OPSETS[pattern.op] for _, pattern in find_activations(graph)), default=0)
    changes = try_upgrade_opset(graph, needed, keep=keep_opset or float_functions)
    fused, declined, floats = Counter[str](), Counter[str](), dict[str, list[str]]()
    for node, pattern in find_activations(graph):
        if MIN_OPSETS[pattern.op] > graph.opset:
            if float_functions:
                continue
            declined[pattern.op] += 1
            floats.setdefault(pattern.op, []).extend(list_outputs_between(pattern.x, node))
            continue
        _insert_activation(graph, node, pattern)
        fused[pattern.op] += 1
    graph.remove_unused()
    changes += [Change("fuse_activations", n, new=op) for op, n in fused.items()]
    for op, n in declined.items():
        reason = explain_old_opset(graph, MIN_OPSETS[op], keep=keep_opset)
        stay = tuple(floats[op]) if keep_opset else ()
        changes.append(Change("fuse_activations", n, new=op, declined=reason, stay_float=stay))
    return changes


def _insert_activation(graph: Graph, node: Node, pattern: ActivationPattern) -> None:
    y = node.outputs[0]
    result = _insert(graph, node, pattern.op, [pattern.x], "named", pattern.attrs)
    if pattern.scale is not None:
        scale = graph.add_constant(pattern.scale, f"{get_name(y)}_scale")
        result = _insert(graph, node, "Mul", [result, scale], "scaled", {})
    replace_node(graph, node, result)


def _insert(
    graph: Graph,
    node: Node,
    op: str,
    inputs: list[Value],
    hint: str,
    attrs: Mapping[str, Any],
) -> Value:
    y = node.outputs[0]
    return graph.insert(
        op,
        inputs,
        before=node,
        attrs=attrs,
        output=f"{get_name(y)}_{hint}",
        dtype=get_dtype(y),
        shape_like=y,
    )
