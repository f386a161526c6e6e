"""Tensors of a `.tflite` file while it is written: each ONNX value, and the order in which its axes are stored.

LiteRT's image operators store channels last. A value is written in the order that its operator gives; a reader that
needs another order gets a TRANSPOSE in between. Orders are chosen so that this is rare: an operator that works in any
order keeps that of its input, and model inputs that an image operator reads are stored channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.rewrite.tflite.builtins import find_missing_type, find_version
from ptq.rewrite.tflite.flatbuffer import FlatbufferModel
from ptq.rewrite.tflite.measured_shapes import DependsOnBatchError, MeasuredShapes
from ptq.rewrite.tflite.operations import FUSED, Operation, OperationList
from ptq.rewrite.tflite.orders import (
    Order,
    Shape,
    order_channels_last,
    order_naturally,
    permute_shape,
)

TableMaker = Callable[[Operation, QuantParams, QuantParams], NDArray[Any]]
"""Computes the 256 entries of a function of one value, from input −128 to 127."""


@dataclass(frozen=True)
class Stored:
    """A value in the file.

    Attributes:
        tensor: Number of its tensor.
        order: The order of its axes.
    """

    tensor: int
    order: Order


class Emitter:
    """Writes operators into a file; the rows of the operator table call it."""

    def __init__(
        self,
        listed: OperationList,
        measured: MeasuredShapes,
        model: FlatbufferModel,
        make_table: TableMaker | None,
        free_features: Collection[str],
        prefers_last: Collection[str],
    ) -> None:
        self.listed, self.measured, self.model = listed, measured, model
        self.make_table = make_table
        self.free_features, self.prefers_last = free_features, prefers_last
        self.features: dict[str, NDArray[np.int64]] = {}  # the ONNX feature at each stored position
        self.float_nodes: dict[str, str] = {}
        self._stored: dict[str, Stored] = {}
        self._copies: dict[tuple[str, Order], int] = {}
        self._constants: dict[tuple[str, Order, int, np.dtype[Any] | None], int] = {}
        self._types: dict[int, np.dtype[Any]] = {}
        self._ranks: dict[int, int] = {}

    # What is known of a value

    def shape(self, name: str) -> Shape:
        """Its shape in ONNX's order, with the batch that is written."""
        array = self.listed.constants.get(name)
        return self.measured.shapes[name] if array is None else array.shape

    def signature(self, name: str) -> Shape:
        """Its shape with −1 for axes that grow with the batch."""
        array = self.listed.constants.get(name)
        return self.measured.signatures[name] if array is None else array.shape

    def rank(self, name: str) -> int:
        """Number of its axes."""
        return len(self.shape(name))

    def params(self, name: str) -> QuantParams | None:
        """Its scale and zero point; None if it is not quantized."""
        return self.listed.params.get(name)

    def constant(self, name: str | None) -> NDArray[Any] | None:
        """Its array, if it is a constant."""
        return None if name is None else self.listed.constants.get(name)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Its element type in the file."""
        params, array = self.params(name), self.constant(name)
        if params is not None:
            return params.qtype.dtype
        return self.measured.dtypes[name] if array is None else array.dtype

    def order(self, name: str) -> Order | None:
        """The order in which it is stored; None for a constant, which has any order."""
        stored = self._stored.get(name)
        return None if stored is None else stored.order

    def orders(self) -> dict[str, Order]:
        """The order of every value that is stored."""
        return {name: stored.order for name, stored in self._stored.items()}

    # Reading and writing

    def read(
        self,
        name: str,
        order: Order | None = None,
        *,
        rank: int = 0,
        dtype: np.dtype[Any] | None = None,
    ) -> int:
        """The tensor of a value in an order; a TRANSPOSE makes it if it is stored in another one.

        Args:
            name: The value.
            order: The order; None for the one in which it is stored.
            rank: Number of axes to which a value with fewer is extended in front, as ONNX broadcasts.
            dtype: Type of a constant, because its reader takes operands of one type; None for its own, in 32 bits.
        """
        if name in self.listed.constants:
            return self._read_constant(name, order, rank, dtype)
        stored = self._stored.get(name)
        if stored is None:
            raise DependsOnBatchError(
                f"value {name} has another content for each batch size, which LiteRT cannot compute"
            )
        missing = max(rank - self.rank(name), 0)
        if order is None or (order == stored.order and not missing):
            return stored.tensor
        if missing:
            return self._read_extended(name, stored, order, missing)
        key = (name, order)
        if key not in self._copies:
            turns = [stored.order.index(axis) for axis in order]
            self._copies[key] = self._transpose(name, stored.tensor, turns, order)
        return self._copies[key]

    def write(self, name: str, order: Order | None = None) -> int:
        """The new tensor of a value that the next operator computes, in an order; None for ONNX's own."""
        order = order_naturally(self.rank(name)) if order is None else order
        tensor = self.temporary(
            name, permute_shape(self.shape(name), order), self.dtype(name), self.params(name),
            signature=permute_shape(self.signature(name), order),
        )  # fmt: skip
        self._stored[name] = Stored(tensor, order)
        return tensor

    def alias(self, name: str, source: str, order: Order) -> None:
        """Let a value be the tensor of another one, whose axes are ``order`` of the new value."""
        self._stored[name] = Stored(self._stored[source].tensor, order)

    def store(self, name: str, stored: Stored) -> None:
        """Say which tensor holds a value."""
        self._stored[name] = stored

    def temporary(
        self,
        name: str,
        shape: Shape,
        dtype: np.dtype[Any],
        params: QuantParams | None = None,
        *,
        signature: Shape | None = None,
    ) -> int:
        """A new tensor that is no value of ONNX's."""
        tensor = self.model.add_tensor(name, shape, dtype, params, signature=signature)
        self._types[tensor], self._ranks[tensor] = dtype, len(shape)
        return tensor

    def literal(
        self,
        content: NDArray[Any] | np.generic,
        name: str,
        params: QuantParams | None = None,
        axis: int | None = None,
    ) -> int:
        """A new constant."""
        content = np.asarray(content)
        tensor = self.model.add_tensor(
            name, content.shape, content.dtype, params, axis=axis, content=content
        )
        self._types[tensor], self._ranks[tensor] = content.dtype, content.ndim
        return tensor

    def integers(self, values: ArrayLike, name: str) -> int:
        """A new constant of int32: a shape, axes, paddings."""
        return self.literal(np.asarray(values, np.int32), name)

    def op(
        self,
        builtin: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str | None = None,
        **fields: Any,
    ) -> None:
        """Add an operator; its version follows from the types and options."""
        types = [self._types.get(i) for i in inputs]
        missing = find_missing_type(builtin, types)
        if missing:
            name = self.model.name_of(outputs[0])
            raise UnsupportedError(
                f"{name} needs {builtin} of {missing}, which LiteRT does not have"
            )
        rank = max(self._ranks.get(i, 0) for i in inputs)
        version = find_version(builtin, types, fields, rank)
        self.model.add_operator(builtin, version, inputs, outputs, options, fields)

    def require_float(self, o: Operation, why: str) -> None:
        """Keep the reason why LiteRT computes a node in float only; on integers, refuse the node."""
        if o.is_integer:
            raise UnsupportedError(f"{o.op} {o.name}: LiteRT has {why}; leave it float")
        self.float_nodes[o.name] = f"LiteRT has {why}"

    def activation(self, o: Operation) -> int:
        """The number of an operation's fused activation."""
        return self.model.number_of("ActivationFunctionType", o.attrs.get(FUSED, "NONE"))

    def reshape(self, tensor: int, shape: Shape, output: int, name: str) -> None:
        """Add a RESHAPE; one −1 in the shape stands for the batch."""
        if list(shape).count(-1) > 1:
            raise DependsOnBatchError(f"{name} has two axes that grow with the batch")
        target = self.integers(shape, f"{name}_shape")
        self.op("RESHAPE", [tensor, target], [output], "ReshapeOptions", newShape=[*shape])

    def _transpose(self, name: str, tensor: int, turns: Sequence[int], order: Order) -> int:
        copy = self.temporary(
            f"{name}_transposed", permute_shape(self.shape(name), order), self.dtype(name),
            self.params(name), signature=permute_shape(self.signature(name), order),
        )  # fmt: skip
        self.op("TRANSPOSE", [tensor, self.integers(turns, f"{name}_perm")], [copy],
                "TransposeOptions")  # fmt: skip
        return copy

    def _read_constant(
        self, name: str, order: Order | None, rank: int, dtype: np.dtype[Any] | None
    ) -> int:
        array = self.listed.constants[name]
        order = order_naturally(max(rank, array.ndim)) if order is None else order
        key = (name, order, rank, dtype)
        if key not in self._constants:
            array = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
            params = self.params(name)
            if params is not None and params.axis is not None:
                raise UnsupportedError(
                    f"constant {name} has per-channel scales, but its reader takes one scale"
                )
            if dtype is not None:
                array = array.astype(dtype)
            elif array.dtype in (np.float64, np.int64):
                array = _narrow(array, name)
            self._constants[key] = self.literal(array.transpose(order), name, params)
        return self._constants[key]

    def _read_extended(self, name: str, stored: Stored, order: Order, missing: int) -> int:
        """Axes of length 1 in front, then the order."""
        plain = self.read(name, order_naturally(self.rank(name)))
        shape = (1,) * missing + self.signature(name)
        if -1 in shape:
            raise DependsOnBatchError(f"the axes of {name} are shifted by broadcasting")
        if order == order_naturally(len(order)):
            return plain
        extended = self.temporary(
            f"{name}_extended", permute_shape(shape, order), self.dtype(name), self.params(name)
        )
        # A value of fewer axes has one batch axis or none: a RESHAPE keeps the order of the others.
        full = self.temporary(f"{name}_full", shape, self.dtype(name), self.params(name))
        self.reshape(plain, shape, full, name)
        self.op("TRANSPOSE", [full, self.integers(order, f"{name}_perm")], [extended],
                "TransposeOptions")  # fmt: skip
        return extended


def _narrow(array: NDArray[Any], name: str) -> NDArray[Any]:
    """int64 as int32 and float64 as float32: most of LiteRT's operators have no kernel for the wide types."""
    if array.dtype == np.float64:
        return array.astype(np.float32)
    info = np.iinfo(np.int32)
    if array.size and (array.min() < info.min or array.max() > info.max):
        raise UnsupportedError(f"constant {name} holds integers beyond 32 bits")
    return array.astype(np.int32)


def find_common_order(e: Emitter, names: Sequence[str]) -> Order:
    """The order of the computed inputs with the most axes; channels last if one of them is."""
    rank = max(e.rank(name) for name in names)
    found = [e.order(name) for name in names if e.rank(name) == rank]
    orders = [order for order in found if order is not None]
    if not orders:
        return order_naturally(rank)
    return order_channels_last(rank) if order_channels_last(rank) in orders else orders[0]
