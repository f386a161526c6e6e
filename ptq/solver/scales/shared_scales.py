"""One set of weight scales for all uses of a weight.

The scales of one use may be wider than those of another, because its bias would not fit int32 otherwise. All uses
take the widest scales, so that they have the same integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ptq.core.opspec import WEIGHT_INPUT, Role
from ptq.core.plan import Why
from ptq.core.types import QuantParams
from ptq.model.node import get_constant, get_name
from ptq.solver.partition.node_precision import QuantizedNode
from ptq.solver.scales.weight_qparams import QParamsWithReason, compute_bias_qparams


def compute_shared_weight_qparams(
    families: Mapping[str, tuple[str, ...]],
    nodes: Mapping[str, QuantizedNode],
    operands: Mapping[tuple[str, int], QuantParams],
    tensors: Mapping[str, QuantParams],
) -> Iterator[tuple[str, int, QParamsWithReason]]:
    """The parameters that change, by node and position, each with its reason: weights, and biases that follow.

    Args:
        families: Nodes that share a weight, see `ptq.model.weights.shared_weights`.
        nodes: The nodes that will be quantized.
        operands: The parameters of constants so far, by node and position.
        tensors: The parameters of activations.
    """
    for family in dict.fromkeys(families.values()):
        uses = [name for name in family if name in nodes and (name, WEIGHT_INPUT) in operands]
        found = [operands[name, WEIGHT_INPUT] for name in uses]
        if len(set(found)) < 2 or len({(p.axis, p.qtype, p.scale.shape) for p in found}) > 1:
            continue
        first = found[0]
        widest = np.maximum.reduce([params.scale for params in found])
        shared = QuantParams(widest, first.zero_point, first.qtype, first.axis)
        why = Why("derived", f"widest scales of the {len(uses)} nodes that share this weight")
        for name in uses:
            yield name, WEIGHT_INPUT, (shared, why)
            for operand in nodes[name].operands:
                bias = get_constant(operand.value) if operand.role is Role.BIAS else None
                source = nodes[name].inputs_with_role(Role.ACTIVATION)[0]
                if bias is not None:
                    derived = compute_bias_qparams(bias, tensors[get_name(source)], shared)
                    yield name, operand.position, derived
