"""A `.tflite` file in the making: tensors, buffers, operators, signature, metadata.

Equal contents are stored in one buffer. Buffers begin at multiples of 16 bytes, as LiteRT's schema demands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.model.tflite.interpreter import parse_model
from ptq.model.tflite.schema import IDENTIFIER, get_tensor_type, load_schema

_ALIGNMENT = 16
_LARGEST_DEPRECATED_CODE = 127
"""Operator codes up to this one also stand in the field that readers of 2020 and before look at."""
_SCHEMA_VERSION = 3
Shape = Sequence[int]


class FlatbufferModel:
    """The model that is written; operators are added in the order in which they run."""

    def __init__(self) -> None:
        self._schema = load_schema()
        self._model = self._schema.ModelT()
        self._graph = self._schema.SubGraphT()
        self._graph.tensors, self._graph.operators = [], []
        self._model.version, self._model.description = _SCHEMA_VERSION, "ptq"
        self._model.subgraphs, self._model.operatorCodes = [self._graph], []
        self._model.buffers = [self._schema.BufferT()]
        self._model.metadata, self._model.signatureDefs = [], []
        self._buffer_of: dict[bytes, int] = {b"": 0}
        self._code_of: dict[tuple[int, int], int] = {}
        self._names: set[str] = set()

    def add_tensor(
        self,
        name: str,
        shape: Shape,
        dtype: np.dtype[Any],
        params: QuantParams | None,
        *,
        axis: int | None = None,
        content: NDArray[Any] | None = None,
        signature: Shape | None = None,
    ) -> int:
        """Add a tensor and return its number.

        Args:
            name: Its name; a number is appended if another tensor has it.
            shape: Its shape, as stored.
            dtype: Its element type.
            params: Scale and zero point; None if it is not quantized.
            axis: The stored axis along which per-channel scales run.
            content: The elements of a constant.
            signature: The shape with −1 for an axis of any length.
        """
        tensor = self._schema.TensorT()
        tensor.name, tensor.shape, tensor.type = (
            self._unique(name),
            [*shape],
            get_tensor_type(dtype),
        )
        tensor.hasRank = True
        if signature is not None and tuple(signature) != tuple(shape):
            tensor.shapeSignature = [*signature]
        if content is not None:
            tensor.buffer = self._add_buffer(np.ascontiguousarray(content).tobytes())
        if params is not None:
            tensor.quantization = self._schema.QuantizationParametersT()
            tensor.quantization.scale = [float(s) for s in np.atleast_1d(params.scale)]
            tensor.quantization.zeroPoint = [int(z) for z in np.atleast_1d(params.zero_point)]
            tensor.quantization.quantizedDimension = axis or 0
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def add_operator(
        self,
        builtin: str,
        version: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str | None,
        fields: Mapping[str, Any] | None,
    ) -> None:
        """Add an operator.

        Args:
            builtin: Name of the builtin operator in LiteRT's schema.
            version: Its version.
            inputs: Numbers of its inputs; −1 for an absent one.
            outputs: Numbers of its outputs.
            options: Name of its options in the schema; None without any.
            fields: The options by their names in the schema.
        """
        operator = self._schema.OperatorT()
        operator.opcodeIndex = self._find_code(
            getattr(self._schema.BuiltinOperator, builtin), version
        )
        operator.inputs, operator.outputs = [*inputs], [*outputs]
        if options is not None:
            union = "builtinOptions"
            kinds = self._schema.BuiltinOptions
            if not hasattr(kinds, options):
                union, kinds = "builtinOptions2", self._schema.BuiltinOptions2
            setattr(operator, f"{union}Type", getattr(kinds, options))
            content = getattr(self._schema, f"{options}T")()
            for name, value in (fields or {}).items():
                setattr(content, name, value)
            setattr(operator, union, content)
        self._graph.operators.append(operator)

    def shape_of(self, tensor: int) -> tuple[int, ...]:
        """The stored shape of a tensor by its number."""
        return tuple(self._graph.tensors[tensor].shape)

    def name_of(self, tensor: int) -> str:
        """Name of a tensor."""
        return str(self._graph.tensors[tensor].name)

    def number_of(self, enumeration: str, name: str) -> int:
        """The number of a name in an enumeration of the schema, such as ``Padding`` and ``SAME``."""
        return int(getattr(getattr(self._schema, enumeration), name))

    def set_inputs_and_outputs(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Set the model's inputs and outputs by name, and the signature that names them."""
        self._graph.inputs, self._graph.outputs = [*inputs.values()], [*outputs.values()]
        signature = self._schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = "serving_default", 0
        signature.inputs = [self._map(name, at) for name, at in inputs.items()]
        signature.outputs = [self._map(name, at) for name, at in outputs.items()]
        self._model.signatureDefs = [signature]

    def add_metadata(self, name: str, content: bytes) -> None:
        """Add an entry of metadata."""
        entry = self._schema.MetadataT()
        entry.name, entry.buffer = name, self._add_buffer(content)
        self._model.metadata.append(entry)

    def to_bytes(self) -> bytes:
        """The file.

        Raises:
            UnsupportedError: It is larger than a flatbuffer can be.
        """
        return _pack(self._model)

    def _unique(self, name: str) -> str:
        unique, number = name, 1
        while unique in self._names:
            unique, number = f"{name}_{number}", number + 1
        self._names.add(unique)
        return unique

    def _find_code(self, builtin: int, version: int) -> int:
        key = (builtin, version)
        if key not in self._code_of:
            code = self._schema.OperatorCodeT()
            code.builtinCode, code.version = builtin, version
            code.deprecatedBuiltinCode = min(builtin, _LARGEST_DEPRECATED_CODE)
            self._code_of[key] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(code)
        return self._code_of[key]

    def _add_buffer(self, content: bytes) -> int:
        if content not in self._buffer_of:
            self._buffer_of[content] = len(self._model.buffers)
            self._model.buffers.append(_AlignedBuffer(self._schema, content))
        return self._buffer_of[content]

    def _map(self, name: str, tensor: int) -> Any:
        entry = self._schema.TensorMapT()
        entry.name, entry.tensorIndex = name, tensor
        return entry


def with_outputs(content: bytes, names: Collection[str]) -> bytes:
    """A file whose tensors of the given names are outputs too, behind its own.

    Raises:
        ModelError: The bytes are no `.tflite` file.
    """
    model, schema = parse_model(content), load_schema()
    graph = model.subgraphs[0]
    own = [int(number) for number in graph.outputs]
    graph.outputs = own + [
        number
        for number, tensor in enumerate(graph.tensors)
        if tensor.name.decode() in names and number not in own
    ]
    model.buffers = [
        buffer if buffer.data is None else _AlignedBuffer(schema, bytes(buffer.data))
        for buffer in model.buffers
    ]
    return _pack(model)


def _pack(model: Any) -> bytes:
    import flatbuffers

    builder = flatbuffers.Builder(1 << 20)
    try:
        builder.Finish(model.Pack(builder), IDENTIFIER)
    except flatbuffers.builder.BuilderSizeError:
        raise UnsupportedError(
            "the model is larger than 2 GB, the limit of a .tflite file; write ONNX"
        ) from None
    return bytes(builder.Output())


class _AlignedBuffer:
    """A buffer whose content begins at a multiple of 16 bytes; the schema's own Python class does not align."""

    def __init__(self, schema: Any, content: bytes) -> None:
        self._schema, self._content = schema, content

    def Pack(self, builder: Any) -> Any:  # noqa: N802 # the name that the schema's classes call
        """Write the buffer; return its offset."""
        size = len(self._content)
        builder.StartVector(1, size, _ALIGNMENT)
        builder.head = builder.Head() - size
        builder.Bytes[builder.Head() : builder.Head() + size] = self._content
        data = builder.EndVector()
        self._schema.BufferStart(builder)
        self._schema.BufferAddData(builder, data)
        return self._schema.BufferEnd(builder)
