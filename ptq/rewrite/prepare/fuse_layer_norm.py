"""Sub, Pow, ReduceMean, Sqrt, Div → LayerNormalization (opset 17).

`find_layer_norms` has the equations. The separate operators would quantize a variance, whose range is that of a
square, to 8 bits.
"""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import Value, get_constant, get_dtype, get_name
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import list_outputs_between
from ptq.rewrite.prepare.layer_norm_pattern import LayerNormPattern, find_layer_norms
from ptq.rewrite.prepare.upgrade_opset import explain_old_opset, try_upgrade_opset

MIN_OPSET = 17
_KIND, _OP = "fuse_layer_norm", "LayerNormalization"


def fuse_layer_norm(graph: Graph, *, keep_opset: bool = False) -> list[Change]:
    """Replace the operators of a layer normalization by LayerNormalization, in place; raises the opset to 17.

    Declines if ONNX's converter cannot raise the opset, or if ``keep_opset`` is set and it would have to.
    """
    matches = find_layer_norms(graph)
    changes = try_upgrade_opset(graph, MIN_OPSET if matches else 0, keep=keep_opset)
    patterns = find_layer_norms(graph) if graph.opset >= MIN_OPSET else []
    for pattern in patterns:
        _insert_layer_norm(graph, pattern)
    graph.remove_unused()
    if patterns:
        changes.append(Change(_KIND, len(patterns), new=_OP))
    elif matches and graph.opset < MIN_OPSET:
        reason = explain_old_opset(graph, MIN_OPSET, keep=keep_opset)
        pieces = [name for m in matches for name in list_outputs_between(m.x, m.node)]
        stay = tuple(pieces) if keep_opset else ()
        changes.append(Change(_KIND, len(matches), new=_OP, declined=reason, stay_float=stay))
    return changes


def _insert_layer_norm(graph: Graph, pattern: LayerNormPattern) -> None:
    y, dtype = pattern.node.outputs[0], get_dtype(pattern.x)
    name = get_name(y)
    gamma = _flatten_constant(graph, pattern.gamma)
    if gamma is None:
        gamma = graph.add_constant(np.ones(pattern.size, dtype), f"{name}_scale")
    beta = _flatten_constant(graph, pattern.beta)
    result = graph.insert(
        _OP,
        [pattern.x, gamma] if beta is None else [pattern.x, gamma, beta],
        before=pattern.node,
        attrs={"axis": -1, "epsilon": pattern.epsilon},
        output=f"{name}_named",
        dtype=dtype,
        shape_like=y,
    )
    replace_node(graph, pattern.node, result)


def _flatten_constant(graph: Graph, value: Value | None) -> Value | None:
    """The constant with one axis."""
    array = get_constant(value)
    if value is None or array is None or array.ndim == 1:
        return value
    return graph.add_constant(array.reshape(-1), f"{get_name(value)}_flat")
