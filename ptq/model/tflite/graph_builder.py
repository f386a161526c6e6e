"""An ONNX graph in QDQ form in the making, from the tensors of a `.tflite` file.

Tensors keep their names and the order of their axes. An int8 tensor is the output of a QuantizeLinear with its name;
operators read it through a DequantizeLinear. Image operators read and write transposed tensors, channels first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ptq.core.errors import UnsupportedError
from ptq.core.opset_changes import WIDE_QUANTIZER_OPSET
from ptq.core.types import FLOAT32
from ptq.model.tflite.parsed import ParsedModel, ParsedTensor, get_border_name

OPSET = 20
_IR_VERSIONS = {OPSET: 9, WIDE_QUANTIZER_OPSET: 10}
_HELPER = "_helper"
"""End of the names of nodes that the file does not have; names of others end with their operator."""
_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def is_helper(node: str) -> bool:
    """Whether a node of a graph that was read stands for no operator of the file."""
    return node.endswith(_HELPER)


def is_index(tensor: ParsedTensor) -> bool:
    """Whether a tensor holds integers of 32 bits that stand for themselves: they have 64 bits in the ONNX graph."""
    return tensor.dtype == np.int32 and tensor.params is None


class GraphBuilder:
    """The graph; the rows of `ptq.model.tflite.operators` add nodes."""

    def __init__(self, model: ParsedModel) -> None:
        self.model = model
        self._tensors = [*model.tensors]
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._real: dict[int, str] = {}
        self._first: dict[int, str] = {}
        self._names = {t.name for t in model.tensors}
        self._count = 0

    def tensor(self, number: int) -> ParsedTensor:
        """A tensor of the file by its number."""
        return self._tensors[number]

    def set_constant(self, number: int, content: NDArray[Any]) -> None:
        """Let a tensor that an operator writes be a constant."""
        self._tensors[number] = replace(self._tensors[number], content=content)

    def constant_of(self, number: int) -> NDArray[Any]:
        """The elements of a constant.

        Raises:
            UnsupportedError: It is computed.
        """
        content = self.tensor(number).content
        if content is None:
            raise UnsupportedError(f"tensor {self.tensor(number).name} is computed, not a constant")
        return content

    def add(self, op: str, inputs: Sequence[str], output: str = "", **attrs: Any) -> str:
        """Add a node; return its output."""
        output = output or self.unique(op.lower())
        self._nodes.append(helper.make_node(op, [*inputs], [output], f"{output}_{op}", **attrs))
        return output

    def add_helper(self, op: str, inputs: Sequence[str], output: str = "", **attrs: Any) -> str:
        """Add a node that stands for no operator of the file, such as a change of layout; return its output."""
        output = self.add(op, inputs, output, **attrs)
        self._nodes[-1].name = f"{output}{_HELPER}"
        return output

    def add_split(self, inputs: Sequence[str], outputs: Sequence[str], axis: int) -> None:
        """Add a Split."""
        self._nodes.append(
            helper.make_node("Split", [*inputs], [*outputs], f"{outputs[0]}_Split", axis=axis)
        )

    def literal(self, array: Any, hint: str = "constant") -> str:
        """Add an initializer; return its name."""
        name = self.unique(hint)
        self._constants[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def read(self, number: int) -> str:
        """The float value of a tensor, or a constant that is not quantized."""
        if number not in self._real:
            tensor = self.tensor(number)
            if tensor.content is None:
                raise UnsupportedError(
                    f"tensor {tensor.name} is read before it is written; the file is damaged"
                )
            self._real[number] = self._read_constant(tensor)
        return self._real[number]

    def _read_constant(self, tensor: ParsedTensor) -> str:
        assert tensor.content is not None
        array = tensor.content.astype(np.int64) if is_index(tensor) else tensor.content
        name = self.literal(array, tensor.name)
        return name if tensor.params is None else self._dequantize(name, tensor)

    def read_weight(self, number: int, array: NDArray[Any], axis: int) -> str:
        """A weight or bias in another layout, whose scales run along ``axis``.

        Raises:
            UnsupportedError: A bias of 64 bits does not fit the 32 that ONNX's quantizers have.
        """
        tensor = self.tensor(number)
        if array.dtype == np.int64 and tensor.params is not None:
            if np.any(array != array.astype(np.int32)):
                raise UnsupportedError(
                    f"bias {tensor.name} of 64 bits does not fit the 32 that ONNX has"
                )
            array = array.astype(np.int32)
        name = self.literal(array, tensor.name)
        return name if tensor.params is None else self._dequantize(name, tensor, axis)

    def _dequantize(self, integers: str, tensor: ParsedTensor, axis: int | None = None) -> str:
        assert tensor.params is not None
        own = tensor.params.axis
        more = {} if own is None else {"axis": own if axis is None else axis}
        return self.add(
            "DequantizeLinear", [integers, *self._parameters(tensor)],
            self.unique(f"{integers}_dequantized"), **more,
        )  # fmt: skip

    def _parameters(self, tensor: ParsedTensor) -> list[str]:
        assert tensor.params is not None
        kind = np.int32 if tensor.dtype == np.int64 else tensor.dtype
        zero = tensor.params.zero_point.astype(kind)
        return [
            self.literal(tensor.params.scale, f"{tensor.name}_scale"),
            self.literal(zero, f"{tensor.name}_zero_point"),
        ]

    def is_float_result(self, value: str) -> bool:
        """Whether an operator computes a value in float; to transpose it is no computing."""
        maker = next((n for n in reversed(self._nodes) if value in n.output), None)
        if maker is not None and maker.op_type == "Transpose":
            return self.is_float_result(maker.input[0])
        return maker is not None and maker.op_type != "DequantizeLinear"

    def write(self, number: int, value: str) -> None:
        """Let a float value be the content of a tensor, quantized if the tensor is."""
        tensor = self.tensor(number)
        if tensor.params is None:
            self._real[number] = value
            return
        name = tensor.name
        if name in self.model.inputs or name in self.model.outputs:  # that is the float value
            name = self.unique(get_border_name(name))
        self.add("QuantizeLinear", [value, *self._parameters(tensor)], name)
        self._real[number] = self._dequantize(name, tensor)

    def write_integers(self, number: int, op: str, inputs: Sequence[str], **attrs: Any) -> None:
        """Let a node on integers write a tensor itself."""
        tensor = self.tensor(number)
        self._real[number] = self._dequantize(self.add(op, inputs, tensor.name, **attrs), tensor)

    def alias(self, number: int, source: int) -> None:
        """Let a tensor be the same value as another one."""
        self._real[number] = self.read(source)

    def read_image(self, number: int) -> str:
        """A tensor with its channels first."""
        if number not in self._first:
            value = self.add_helper("Transpose", [self.read(number)], perm=_FIRST)
            self._first[number] = self.requantize(number, value, "channels_first")
        return self._first[number]

    def write_image(self, number: int, value: str) -> None:
        """Let a value with its channels first be the content of a tensor."""
        first = self.requantize(number, value, "channels_first")
        self._first[number] = first
        self.write(number, self.add_helper("Transpose", [first], perm=_LAST))

    def reshape(self, number: int, value: str, shape: Sequence[int]) -> str:
        """A value with the scale of a tensor in another shape; −1 is an open axis.

        Raises:
            UnsupportedError: Several axes are open.
        """
        if [*shape].count(-1) > 1:
            raise UnsupportedError(
                f"several axes of {self.tensor(number).name} are open; fix the shape of the input"
            )
        rows = self.requantize(number, value, "before_reshape")
        target = self.literal(np.asarray(shape, np.int64))
        return self.requantize(number, self.add_helper("Reshape", [rows, target]), "reshaped")

    def squeeze(self, number: int, value: str, axes: Sequence[int]) -> str:
        """A value with the scale of a tensor without some axes of length 1."""
        value = self.requantize(number, value, "before_squeeze")
        return self.add_helper("Squeeze", [value, self.literal(np.asarray(axes, np.int64))])

    def activate(self, number: int, value: str, activation: str) -> str:
        """A value after a fused activation, which clamps the integers of the tensor."""
        bounds = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
        if activation == "NONE":
            return value
        tensor = self.tensor(number)
        if activation not in bounds or (tensor.params is None and tensor.dtype.kind in "iu"):
            of = f"{tensor.name} ({tensor.dtype})"
            raise UnsupportedError(f"activation {activation} of {of} is not read")
        before = self.requantize(number, value, "before_activation")
        lo, hi = bounds[activation]
        if hi is None:
            return self.add("Relu", [before])
        pair = [self.literal(np.float32(bound)) for bound in (lo, hi)]
        return self.add("Clip", [before, *pair])

    def requantize(self, number: int, value: str, suffix: str) -> str:
        """A value with the scale of a tensor, quantized if the tensor is."""
        tensor = self.tensor(number)
        if tensor.params is None:
            return value
        name = self.unique(f"{tensor.name}_{suffix}")
        self.add("QuantizeLinear", [value, *self._parameters(tensor)], name)
        return self._dequantize(name, tensor)

    def unique(self, hint: str) -> str:
        """A name that is not used yet."""
        name = hint
        while name in self._names:
            self._count += 1
            name = f"{hint}_{self._count}"
        self._names.add(name)
        return name

    def to_proto(self) -> onnx.ModelProto:
        """The model, with inputs and outputs in the axes of the ONNX model where the metadata say them."""
        inputs = [self._describe(name, number) for name, number in self.model.inputs.items()]
        outputs = [
            helper.make_tensor_value_info(self._write_output(name, n), self._kind(n), None)
            for name, n in self.model.outputs.items()
        ]
        graph = helper.make_graph(
            self._nodes, "tflite", inputs, outputs, [*self._constants.values()]
        )
        wide = any(t.params is not None and t.dtype == np.int16 for t in self.model.tensors)
        opset = WIDE_QUANTIZER_OPSET if wide else OPSET
        imports = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSIONS[opset])
        helper.set_model_props(model, dict(self.model.metadata))
        return model

    def read_inputs(self) -> None:
        """Add the inputs: transposed to the stored order, quantized where the file takes integers."""
        self._names.update(self.model.inputs)
        self._names.update(self.model.outputs)
        for name, number in self.model.inputs.items():
            tensor, order = self.tensor(number), self.model.orders.get(name)
            value = name
            if order is not None and order != tuple(sorted(order)):
                value = self.add_helper("Transpose", [value], perm=order)
            if tensor.dtype == np.float16:
                value = self.add_helper("Cast", [value], to=onnx.TensorProto.FLOAT16)
            if is_index(tensor):
                value = self.add_helper("Cast", [value], to=onnx.TensorProto.INT64)
            self.write(number, value)

    def _write_output(self, name: str, number: int) -> str:
        value, order = self.read(number), self.model.orders.get(name)
        if self.tensor(number).dtype == np.float16:
            value = self.add_helper("Cast", [value], to=onnx.TensorProto.FLOAT)
        if is_index(self.tensor(number)):
            value = self.add_helper("Cast", [value], to=onnx.TensorProto.INT32)
        if order is not None and order != tuple(sorted(order)):
            return self.add_helper("Transpose", [value], name, perm=np.argsort(order).tolist())
        maker = next((n for n in self._nodes if value in n.output), None)
        readers = [n for n in self._nodes if value in n.input]
        is_alone = [self.read(n) for n in self.model.outputs.values()].count(value) <= 1
        if maker is not None and not readers and is_alone:
            maker.output[0] = name
            return name
        return self.add_helper("Identity", [value], name)

    def _kind(self, number: int) -> int:
        tensor = self.tensor(number)
        is_real = tensor.params is not None or tensor.dtype == np.float16
        return int(helper.np_dtype_to_tensor_dtype(FLOAT32 if is_real else tensor.dtype))

    def _describe(self, name: str, number: int) -> Any:
        tensor, order = self.tensor(number), self.model.orders.get(name)
        shape: list[Any] = ["N" if length == -1 else length for length in tensor.signature]
        if order is not None and len(order) == len(shape):
            shape = [shape[order.index(axis)] for axis in range(len(shape))]
        return helper.make_tensor_value_info(name, self._kind(number), shape)
