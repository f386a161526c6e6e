"""A quantized graph as a sequence of integer steps and float islands.

Tensors between steps hold integers. What a runtime computes in float, between a DequantizeLinear and a
QuantizeLinear, is one float island: it takes integers and returns integers (`ptq.executor.float_islands`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.executor.float_islands import FloatIsland


@dataclass(frozen=True, eq=False)
class Step:
    """One operator on integers.

    Attributes:
        name: Name of its node.
        op: Name of its row in the operator table, or of a quantizer, or ``Requantize`` for a DequantizeLinear →
            QuantizeLinear.
        attrs: ONNX attributes, and the operands that newer opsets have as inputs.
        inputs: Names of tensors and constants, None if absent.
        outputs: Name of its tensor. An operator with several outputs is one step for each output that is read.
        output_index: Position of that output among those of the operator.
        keeps_integers: Its output holds integers of its input unchanged, whatever their parameters are.
        bits: Bits of its activations.
    """

    name: str
    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    output_index: int = 0
    keeps_integers: bool = False
    bits: int = 8


@dataclass(frozen=True, eq=False)
class Program:
    """A quantized graph as steps.

    Attributes:
        steps: Each step after those that write its inputs.
        params: Scale and zero point of tensors and constants, by name.
        constants: Arrays by name.
        inputs: Names of the graph's inputs.
        outputs: Names of the graph's outputs.
    """

    steps: tuple[Step | FloatIsland, ...]
    params: Mapping[str, QuantParams]
    constants: Mapping[str, NDArray[Any]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
