"""HardSigmoid, HardSwish → sums and products of integers, clamped by the saturation of 8 bits.

HardSigmoid is clip(αx + β, 0, 1). Integers read with a scale α times as large are αx. The constant β is added in a
range that starts at 0 with zero point 0 and ends at 1 or below. The saturation of this sum is the clamp. HardSwish is
this times x.

ONNX Runtime has neither operator on integers. It computes them in four float passes between quantizers, in 0.9 ns an
element. QLinearAdd and QLinearMul take 0.3 ns together (measured on 1.31.1, one thread, between two convolutions).
The factor is rounded to 1/255 on the way, which adds an error of at most 0.002·|x| for |x| < 3.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ptq.core.types import FLOAT32, QType, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_attributes, get_name, get_operator, get_shape
from ptq.model.qdq.qdq_units import QuantizedTensor, match_qdq_op
from ptq.rewrite.emit.q_dq_nodes import QuantizerBuilder

_GATE_LEVELS = 255


def write_hard_sigmoid_as_sum(graph: Graph, floats: Collection[str]) -> None:
    """Replace HardSigmoid and HardSwish between quantizers by integer sums and products, in place.

    Args:
        graph: A graph with quantizers and uint8 activations.
        floats: Names of the nodes that stay in float.
    """
    quantizers = QuantizerBuilder(graph)
    for node in graph.nodes:
        if get_operator(node) not in ("HardSigmoid", "HardSwish") or node.name in floats:
            continue
        found = match_qdq_op(node)
        if found is None:
            continue
        (x,), (y,) = found.inputs, found.outputs
        if not isinstance(x, QuantizedTensor) or y is None or x.params.qtype.lo != 0:
            continue
        result = node.outputs[0]
        if get_operator(node) == "HardSwish":
            gate = _make_scalar_qparams(1 / _GATE_LEVELS, 0, x.params.qtype)
            real = _insert_affine(
                graph, quantizers, node, x, 1 / 6, 0.5, f"{get_name(result)}_gate"
            )
            integers = quantizers.quantize(real, gate, before=node, after=None)
            pair = quantizers.qparam_initializers(gate, get_name(real))
            factor = quantizers.dequantize(integers, *pair, gate, hint=get_name(real), before=node)
            new = _insert_product(graph, node, factor)
        elif _is_within_unit_range(y.params):
            attrs = get_attributes(node)
            slope, shift = float(attrs.get("alpha", 0.2)), float(attrs.get("beta", 0.5))
            if not slope > 0 or not shift > 0:
                continue
            new = _insert_affine(
                graph, quantizers, node, x, slope, shift, f"{get_name(result)}_shifted"
            )
        else:
            continue
        graph.redirect(result, new)
        graph.remove(node)


def _make_scalar_qparams(scale: float, zero_point: int, qtype: QType) -> QuantParams:
    return QuantParams(np.array(scale, np.float32), np.array(zero_point, np.int64), qtype)


def _is_within_unit_range(params: QuantParams) -> bool:
    """Whether the range of the integers starts at 0 and ends at 1 or below."""
    span = float(params.scale) * (params.qtype.hi - params.qtype.lo)
    return int(params.zero_point) == params.qtype.lo and span <= 1 + 1e-6


def _insert_affine(
    graph: Graph, quantizers: QuantizerBuilder, node: Node, x: QuantizedTensor, slope: float, shift: float, hint: str
) -> Value:  # fmt: skip
    """Insert slope · x + shift; the integers of x are read with another scale as slope · x."""
    before = x.params
    params = _make_scalar_qparams(float(before.scale) * slope, int(before.zero_point), before.qtype)
    copy = graph.insert(
        "Identity",  # integers read with a second scale need a second name
        [x.integers],
        before=node,
        output=f"{hint}_integers",
        dtype=before.qtype.dtype,
        shape_like=x.integers,
    )
    pair = quantizers.qparam_initializers(params, hint)
    scaled = quantizers.dequantize(copy, *pair, params, hint=hint, before=node)
    one = _make_scalar_qparams(shift, 0, before.qtype)
    # The constant has the rank of x. With a scalar, the layout decides the order of QLinearAdd's operands, and so how
    # it rounds a tie.
    shape = (1,) * len(get_shape(x.integers) or ())
    code = graph.add_constant(np.ones(shape, before.qtype.dtype), f"{hint}_one")
    pair = quantizers.qparam_initializers(one, f"{hint}_shift")
    constant = quantizers.dequantize(code, *pair, one, hint=f"{hint}_shift", before=node)
    return graph.insert(
        "Add", [scaled, constant], before=node, output=hint, dtype=FLOAT32, shape_like=x.integers
    )


def _insert_product(graph: Graph, node: Node, factor: Value) -> Value:
    x, result = node.inputs[0], node.outputs[0]
    return graph.insert(
        "Mul",
        [x, factor],
        before=node,
        output=f"{get_name(result)}_product",
        dtype=FLOAT32,
        shape_like=result,
    )
