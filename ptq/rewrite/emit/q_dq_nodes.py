"""Quantized constants and Q/DQ nodes, from which both output forms are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ptq.core.types import FLOAT32, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import Node, Value
from ptq.rewrite.emit.rounded_weight import get_chosen_integers


class QuantizerBuilder:
    """Adds scales, zero points, quantized constants and Q/DQ nodes to one graph; equal constants are shared."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._qparams: dict[tuple[str, QuantParams], tuple[Value, Value]] = {}
        self._constants: dict[tuple[int, QuantParams], tuple[Value, Value, Value]] = {}
        self._zero_points: dict[tuple[int, tuple[Any, ...]], Value] = {}

    def qparam_initializers(self, params: QuantParams, hint: str) -> tuple[Value, Value]:
        """The initializers for scale and zero point."""
        key = (hint, params)
        if key not in self._qparams:
            zero_point = params.zero_point.astype(params.qtype.dtype)
            self._qparams[key] = (
                self._graph.add_constant(params.scale, f"{hint}_scale"),
                self._graph.add_constant(zero_point, f"{hint}_zero_point"),
            )
        return self._qparams[key]

    def quantize_constant(
        self, value: Value, array: Callable[[], NDArray[Any]], params: QuantParams
    ) -> tuple[Value, Value, Value]:
        """The initializers for a constant's integers, scale and zero point.

        Args:
            value: The constant.
            array: Returns its real values; called unless its integers are known.
            params: Its parameters.
        """
        key = (id(value), params)
        if key not in self._constants:
            hint = value.name or "constant"
            known = get_chosen_integers(value, params)
            found = params.quantize(array()) if known is None else known
            integers = self._graph.add_constant(found, f"{hint}_quantized")
            scale, zero_point = self.qparam_initializers(params, integers.name or hint)
            same = self._zero_points.setdefault(
                (id(value), _build_zero_point_key(params)), zero_point
            )
            self._constants[key] = integers, scale, same
        return self._constants[key]

    def quantize(
        self, value: Value, params: QuantParams, *, before: Node | None, after: Node | None
    ) -> Value:
        """Insert a QuantizeLinear of the value; the integers."""
        name = value.name or "tensor"
        return self._graph.insert(
            "QuantizeLinear",
            [value, *self.qparam_initializers(params, name)],
            before=before,
            after=after,
            output=f"{name}_quantized",
            dtype=params.qtype.dtype,
            shape_like=value,
        )

    def dequantize(
        self,
        integers: Value,
        scale: Value,
        zero_point: Value,
        params: QuantParams,
        *,
        hint: str,
        after: Node | None = None,
        before: Node | None = None,
        axis: int | None = None,
    ) -> Value:
        """Insert a DequantizeLinear of the integers; the real values. ``axis`` replaces that of the parameters."""
        return self._graph.insert(
            "DequantizeLinear",
            [integers, scale, zero_point],
            attrs={} if params.axis is None else {"axis": params.axis if axis is None else axis},
            before=before,
            after=after,
            output=f"{hint}_dequantized",
            dtype=FLOAT32,
            shape_like=integers,
        )


def _build_zero_point_key(params: QuantParams) -> tuple[Any, ...]:
    return params.qtype, params.zero_point.shape, params.zero_point.tobytes()
