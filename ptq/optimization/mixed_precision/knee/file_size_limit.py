"""What integers save of a model's file, and how much of it nodes that stay float take back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptq.model.node import get_name, is_constant
from ptq.model.proto.serialize import count_serialized_bytes
from ptq.optimization.mixed_precision.attribution.float_candidates import CostFunction
from ptq.solver.quantizer import QuantizedModel


@dataclass(frozen=True)
class _Weight:
    """A weight that integers make smaller.

    Attributes:
        readers: The nodes that read its integers, and may be float.
        in_float: Its bytes in float.
        in_integers: Its bytes in integers.
    """

    readers: frozenset[str]
    in_float: int
    in_integers: int


class KeptSaving:
    """Decides whether float nodes leave enough of the bytes that integers save.

    Of what float nodes take back, weights are counted; the quantizers that they make needless are not.
    """

    def __init__(self, quantized: QuantizedModel, share: float) -> None:
        """Compare the float model as given, whose weights may be halves, with the quantized one.

        Args:
            quantized: The model with the most integers.
            share: The share of the saved bytes that float nodes may take back.
        """
        given, smaller = quantized.calibrated_model.source, quantized.quantized_graph
        saved = count_serialized_bytes(given.model) - count_serialized_bytes(smaller.model)
        self._most = share * max(saved, 0)
        self._weights = _list_weights(quantized)

    def allows(self, floats: frozenset[str]) -> bool:
        """Whether these nodes may be float together.

        A weight is stored twice while other nodes read its integers.
        """
        more = 0
        for weight in self._weights:
            if not weight.readers.isdisjoint(floats):
                more += weight.in_float
                more -= weight.in_integers if weight.readers <= floats else 0
        return more <= self._most

    def limit(self, price: CostFunction) -> CostFunction:
        """The same cost of float nodes, infinite where they may not be float."""

        def limited(more: frozenset[str], floats: frozenset[str]) -> float:
            return price(more, floats) if self.allows(floats | more) else math.inf

        return limited


def _list_weights(quantized: QuantizedModel) -> list[_Weight]:
    """The weights that the plan quantizes."""
    nodes = {node.name or "": node for node in quantized.calibrated_model.prepared.graph.nodes}
    readers, sizes = dict[str, set[str]](), dict[str, tuple[int, int]]()
    for (name, position), params in quantized.plan.operands.items():
        value = nodes[name].inputs[position] if name in nodes else None
        if value is not None and is_constant(value):
            tensor = value.const_value
            assert tensor is not None
            readers.setdefault(get_name(value), set()).add(name)
            sizes[get_name(value)] = tensor.nbytes, params.qtype.dtype.itemsize * tensor.size
    return [_Weight(frozenset(readers[weight]), *sizes[weight]) for weight in sizes]
