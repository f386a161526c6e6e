"""What integers save of a model's file, and how much of it nodes that stay float take back."""

from __future__ import annotations

import math

from ptq.model.node import Value, consumers_of, is_constant, name_of
from ptq.model.serialize import serialized_size
from ptq.optimization.mixed_precision.float_candidates import CostFunction
from ptq.solver.quantizer import QuantizedModel


class KeptSaving:
    """Decides whether float nodes leave enough of the bytes that integers save.

    Of what float nodes take back, weights are counted; the quantizers that they make needless are not.
    """

    def __init__(self, made: QuantizedModel, share: float) -> None:
        """Compare the float model as given, whose weights may be halves, with the quantized one.

        Args:
            made: The model with the most integers.
            share: The share of the saved bytes that float nodes may take back.
        """
        given, quantized = made.calibrated_model.source, made.quantized_graph
        saved = serialized_size(given.model) - serialized_size(quantized.model)
        self._most = share * max(saved, 0)
        self._operands = made.plan.operands
        nodes = {node.name or "": node for node in made.calibrated_model.prepared.graph.nodes}
        self._weights = dict[str, dict[str, tuple[Value, int]]]()
        for name, position in self._operands:
            value = nodes[name].inputs[position] if name in nodes else None
            if value is not None and is_constant(value):
                self._weights.setdefault(name, {})[name_of(value)] = value, position

    def allows(self, floats: frozenset[str]) -> bool:
        """Whether these nodes may be float together."""
        read = {
            weight: (value, self._operands[name, position].qtype.dtype.itemsize)
            for name in floats
            for weight, (value, position) in self._weights.get(name, {}).items()
        }
        return sum(self._count_more(*weight, floats) for weight in read.values()) <= self._most

    def limit(self, price: CostFunction) -> CostFunction:
        """The same cost of float nodes, infinite where they may not be float."""

        def limited(more: frozenset[str], floats: frozenset[str]) -> float:
            return price(more, floats) if self.allows(floats | more) else math.inf

        return limited

    def _count_more(self, weight: Value, itemsize: int, floats: frozenset[str]) -> int:
        """The bytes that a weight takes more where these nodes read it in float.

        It is stored twice while other nodes read its integers.
        """
        assert weight.const_value is not None
        tensor = weight.const_value
        others = any(
            node.name not in floats and name_of(weight) in self._weights.get(node.name or "", {})
            for node in consumers_of(weight)
        )
        return int(tensor.nbytes - (0 if others else itemsize * tensor.size))
