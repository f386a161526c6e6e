"""A weight whose integers are chosen already: it takes their memory, not that of real numbers."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.model.node import Value


class RoundedWeight(ir.LazyTensor):
    """The real values of a quantized weight in float32, computed from its integers whenever they are read.

    Attributes:
        integers: With their zero point, laid out as the node's weight.
        params: Their parameters.
    """

    def __init__(self, integers: NDArray[Any], params: QuantParams) -> None:
        """Take the integers and their parameters."""
        super().__init__(
            lambda: ir.Tensor(params.dequantize(integers)),
            ir.DataType.FLOAT,
            ir.Shape(integers.shape),
        )
        self.integers, self.params = integers, params


def get_chosen_integers(value: Value, params: QuantParams) -> NDArray[Any] | None:
    """The integers of a constant if it is a rounded weight with these parameters, else None."""
    weight = value.const_value
    if isinstance(weight, RoundedWeight) and weight.params == params:
        return weight.integers
    return None
