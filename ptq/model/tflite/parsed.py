"""A `.tflite` file as plain data: tensors, operators, inputs and outputs by name, metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError, UnsupportedError
from ptq.core.types import QType, QuantParams
from ptq.model.tflite.interpreter import ORDERS, list_signature_names, parse_model, read_metadata
from ptq.model.tflite.schema import load_schema
from ptq.model.tflite.sparse import to_dense


@dataclass(frozen=True, eq=False)
class ParsedTensor:
    """One tensor.

    Attributes:
        name: Its name, unique in the file.
        signature: Its shape, with −1 for an axis of any length.
        dtype: Its element type.
        params: Scale and zero point; None if it is not quantized.
        content: Its elements if it is a constant, those of a sparse one too.
    """

    name: str
    signature: tuple[int, ...]
    dtype: np.dtype[Any]
    params: QuantParams | None
    content: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class ParsedOperator:
    """One operator.

    Attributes:
        builtin: Name of the builtin operator.
        inputs: Numbers of its inputs; −1 for an absent one.
        outputs: Numbers of its outputs.
        options: Its options, an object of the schema; None without any.
    """

    builtin: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any


@dataclass(frozen=True, eq=False)
class ParsedModel:
    """A file.

    Attributes:
        tensors: Its tensors, by number.
        operators: Its operators in order.
        inputs: Numbers of its inputs, by name.
        outputs: Numbers of its outputs, by name.
        metadata: Entries of its metadata that are text.
        orders: Stored order of the axes of inputs and outputs, by name; empty for a file of another tool.
    """

    tensors: tuple[ParsedTensor, ...]
    operators: tuple[ParsedOperator, ...]
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    metadata: Mapping[str, str]
    orders: Mapping[str, tuple[int, ...]]


def get_border_name(tensor: str) -> str:
    """The integers of an input or output in the ONNX graph; the tensor's own name is that of the float value."""
    return f"{tensor}_quantized"


def parse_tflite(content: bytes) -> ParsedModel:
    """Read a file.

    Raises:
        ModelError: The bytes are no `.tflite` file, or a damaged one.
        UnsupportedError: It has several graphs or a type that ONNX lacks; or ``ai-edge-litert`` is not installed.
    """
    model = parse_model(content)
    if len(model.subgraphs or ()) != 1:
        raise UnsupportedError("the .tflite file has several graphs; only files of one are read")
    [graph] = model.subgraphs
    codes, metadata = _get_builtin_names(), read_metadata(content)
    try:
        tensors = _read_tensors(model, graph)
        operators = tuple(
            ParsedOperator(
                codes[model.operatorCodes[o.opcodeIndex].builtinCode],
                tuple(int(i) for i in _list(o.inputs)),
                tuple(int(i) for i in _list(o.outputs)),
                o.builtinOptions if o.builtinOptions is not None else o.builtinOptions2,
            )
            for o in _list(graph.operators)
        )
        orders = json.loads(metadata.get(ORDERS, "{}"))
        return ParsedModel(
            tensors, operators, _index_by_name(model, tensors, graph.inputs, "inputs"),
            _index_by_name(model, tensors, graph.outputs, "outputs"), metadata,
            {name: tuple(order) for name, order in orders.items()},
        )  # fmt: skip
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ModelError(f"the .tflite file is damaged ({error!r}); write it again") from error


def _list(values: Any) -> Any:
    return () if values is None else values


def _get_builtin_names() -> dict[int, str]:
    values = vars(load_schema().BuiltinOperator)
    return {number: name for name, number in values.items() if isinstance(number, int)}


def _read_tensors(model: Any, graph: Any) -> tuple[ParsedTensor, ...]:
    names: set[str] = set()
    found = []
    for number, tensor in enumerate(graph.tensors):
        name = tensor.name.decode() if tensor.name else f"tensor_{number}"
        name = f"{name}_{number}" if name in names else name
        names.add(name)
        shape = tuple(int(n) for n in _list(tensor.shape))
        given = _list(tensor.shapeSignature)
        dtype = _to_dtype(tensor.type)
        data = model.buffers[tensor.buffer].data
        content = None
        if data is not None and len(data):
            content = np.frombuffer(np.asarray(data, np.uint8).tobytes(), dtype)
            sparsity = tensor.sparsity
            content = (
                content.reshape(shape) if sparsity is None else to_dense(content, shape, sparsity)
            )
        signature = tuple(int(n) for n in given) if len(given) else shape
        params = _read_params(tensor, dtype)
        found.append(ParsedTensor(name, signature, dtype, params, content))
    return tuple(found)


def _to_dtype(number: int) -> np.dtype[Any]:
    names = {v: k for k, v in vars(load_schema().TensorType).items() if isinstance(v, int)}
    try:
        dtype: np.dtype[Any] = np.dtype(names[number].lower())
    except TypeError:
        raise UnsupportedError(f"tensors of type {names[number]} are not read") from None
    return dtype


def _read_params(tensor: Any, dtype: np.dtype[Any]) -> QuantParams | None:
    given = tensor.quantization
    scales = np.asarray(_list(None if given is None else given.scale), np.float32)
    if not scales.size or dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    kind = QType(dtype.itemsize * 8, dtype.kind == "i", int(info.min), int(info.max))
    zeros = np.broadcast_to(np.asarray(_list(given.zeroPoint), np.int64), scales.shape)
    if scales.size == 1:
        return QuantParams(scales.reshape(()), zeros.reshape(()), kind)
    return QuantParams(scales, zeros, kind, int(given.quantizedDimension))


def _index_by_name(model: Any, tensors: Any, numbers: Any, side: str) -> dict[str, int]:
    names = list_signature_names(model, side)
    return {name: int(n) for n in _list(numbers) for name in names.get(int(n), [tensors[n].name])}
