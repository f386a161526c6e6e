"""Nodes whose scales are outside of what LiteRT's integer kernels compute."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.types import QuantParams
from ptq.model.litert_limits import (
    COMPARISONS,
    SUMS,
    find_clamp_limit,
    find_comparison_limit,
    find_sum_limit,
)
from ptq.model.node import get_name
from ptq.solver.partition.node_precision import QuantizedNode
from ptq.solver.scales.clamp_bounds import find_clamp_bounds


def find_nodes_beyond_litert(
    nodes: Mapping[str, QuantizedNode],
    tensors: Mapping[str, QuantParams],
    edges: Mapping[tuple[str, int], QuantParams],
    folded: Mapping[str, str],
) -> dict[str, str]:
    """Integer nodes that LiteRT does not have, or would end its process on, each with the reason.

    Args:
        nodes: The nodes that will be quantized.
        tensors: The parameters of each tensor.
        edges: The parameters of inputs that are requantized, by node and position.
        folded: The producer of each activation that is folded into it, whose output has no parameters then.
    """
    found, activations = {}, {producer: name for name, producer in folded.items()}
    for name, quantized in nodes.items():
        if quantized.spec.op not in {*SUMS, *COMPARISONS, "Clip"} or name in folded:
            continue
        inputs = quantized.list_activation_qparams(tensors, edges)
        scales = [float(params.scale) for params in inputs]
        if quantized.spec.op in COMPARISONS:
            reason = find_comparison_limit(scales)
        else:
            last = nodes[activations.get(name, name)].node
            output = tensors[get_name(last.outputs[0])]
            if quantized.spec.op == "Clip":
                bits = output.qtype.bits
                reason = (
                    ""
                    if inputs == [output]
                    else find_clamp_limit(find_clamp_bounds(quantized), bits)
                )
            else:
                reason = find_sum_limit(scales, float(output.scale), output.qtype.bits)
        if reason:
            found[name] = reason
    return found
