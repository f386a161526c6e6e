"""Quantized models of one operator, or a few, by hand: integers with given scales, in QDQ form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ptq.model.graph import Graph

OPSET = 20


class QdqBuilder:
    """A model that is built node by node; every method returns the name of a value."""

    def __init__(self, seed: int = 0, *, wide: bool = False) -> None:
        """Take the seed; ``wide`` makes activations int16 around 0, of 128 times finer scales."""
        self.wide = wide
        self.rng = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._count = 0

    def input(
        self, shape: list[int | str], scale: float = 0.05, zero: int = -3, name: str = ""
    ) -> str:
        """A float input that is quantized to int8."""
        name = name or f"input{len(self._inputs)}"
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return self.requantize(name, scale, zero)

    def real_input(self, shape: list[int | str], kind: int = TensorProto.FLOAT) -> str:
        """An input that is not quantized."""
        name = f"input{len(self._inputs)}"
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, array: Any, name: str = "constant") -> str:
        """A constant."""
        name = self._unique(name)
        self._constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int, axis: int | None = 0, spread: int = 127) -> str:
        """A random int8 weight; ``axis`` has a scale for each position."""
        integers = self.rng.integers(-spread, spread + 1, shape).astype(np.int8)
        return self.integers(integers, axis)

    def integers(self, array: NDArray[Any], axis: int | None = None, scale: float = 0.01) -> str:
        """Constant integers with scales near ``scale``."""
        if self.wide and axis is None and array.ndim != 2:  # an activation
            array, scale = array.astype(np.int16) * 256, scale / 128
        count = () if axis is None else (array.shape[axis],)
        scales = np.asarray(scale * self.rng.uniform(0.5, 1.5, count), np.float32)
        return self.dequantize(
            self.constant(array, "integers"), scales, np.zeros(count, array.dtype), axis
        )

    def bias(self, x: float, weight: str, count: int) -> str:
        """An int32 bias with the scale of the input times the weight's."""
        maker = next(n for n in self._nodes if weight in n.output)
        scales = next(numpy_helper.to_array(c) for c in self._constants if c.name == maker.input[1])
        array = self.rng.integers(-2000, 2000, count).astype(np.int32)
        x = x / 128 if self.wide else x
        product = np.broadcast_to(np.float32(x) * scales, (count,)).astype(np.float32)
        return self.dequantize(self.constant(array, "bias"), product, np.zeros(count, np.int32), 0)

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        """A node; one name, or as many as it has outputs."""
        names = [self._unique(op.lower()) for _ in range(outputs)]
        self._nodes.append(helper.make_node(op, inputs, names, names[0], **attrs))
        return names[0] if outputs == 1 else names

    def requantize(
        self, value: str, scale: float = 0.07, zero: int = 5, kind: Any = np.int8
    ) -> str:
        """A value that is quantized to 8 bits and back, or to 16."""
        if self.wide:
            kind, zero = np.int16, 0
            scale = 2**-15 if scale == 1 / 128 else scale / 128  # the range of Tanh is fixed
        params = np.float32(scale), kind(zero)
        pair = [self.constant(p, "parameter") for p in params]
        q, dq = self._unique(f"{value}_q"), self._unique(f"{value}_dq")
        self._nodes.append(helper.make_node("QuantizeLinear", [value, *pair], [q], q))
        self._nodes.append(helper.make_node("DequantizeLinear", [q, *pair], [dq], dq))
        return dq

    def dequantize(
        self, integers: str, scale: NDArray[Any], zero: NDArray[Any], axis: int | None
    ) -> str:
        """Constant integers in float."""
        name, more = self._unique(f"{integers}_dq"), {} if axis is None else {"axis": axis}
        pair = [self.constant(p, "parameter") for p in (scale, zero)]
        self._nodes.append(
            helper.make_node("DequantizeLinear", [integers, *pair], [name], name, **more)
        )
        return name

    def output(self, value: str, kind: int = TensorProto.FLOAT) -> None:
        """Make a value an output of the model."""
        self._outputs.append(helper.make_tensor_value_info(value, kind, None))

    def to_graph(self) -> Graph:
        """The model."""
        graph = helper.make_graph(self._nodes, "one", self._inputs, self._outputs, self._constants)
        opset = OPSET + self.wide  # from opset 21 on, quantizers take int16
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 9 + self.wide
        return Graph.from_proto(onnx.shape_inference.infer_shapes(model))

    def _unique(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"
