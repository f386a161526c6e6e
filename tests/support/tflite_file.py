"""Files of few operators, built from the objects of LiteRT's schema."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np

from ptq.executor.executor import Executor
from ptq.model.node import get_name
from ptq.model.open import open_model
from ptq.model.tflite.interpreter import LitertModel
from ptq.model.tflite.schema import get_tensor_type, load_schema
from ptq.verification.node_status import list_node_statuses


class FileBuilder:
    """A file in the making; int8 tensors have scale 0.05, and int32 biases the product of two."""

    def __init__(self) -> None:
        self.schema = load_schema()
        self.model = self.schema.ModelT()
        self.model.version = 3
        self.model.buffers, self.model.operatorCodes = [self.schema.BufferT()], []
        self.graph = self.schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []

    def tensor(
        self, name: str, shape: Any, dtype: Any = np.int8, content: Any = None, scale: float = 0
    ) -> int:
        tensor, dtype = self.schema.TensorT(), np.dtype(dtype)
        tensor.name, tensor.type = name.encode(), get_tensor_type(dtype)
        tensor.shape, tensor.shapeSignature = [abs(n) for n in shape], [*shape]
        if content is not None:
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(self.schema.BufferT())
            data = np.frombuffer(np.asarray(content, dtype).tobytes(), np.uint8)
            self.model.buffers[-1].data = data
        if scale:
            tensor.quantization = self.schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def add(self, builtin: str, inputs: list[int], outputs: list[int], options: Any = None) -> None:
        code, operator = self.schema.OperatorCodeT(), self.schema.OperatorT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, builtin)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        operator.opcodeIndex = len(self.model.operatorCodes)
        operator.inputs, operator.outputs = inputs, outputs
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, kind)
            operator.builtinOptions = options
        self.model.operatorCodes.append(code)
        self.graph.operators.append(operator)

    def pack(self) -> bytes:
        """The file; its inputs are read and not written, its outputs those of the last operator."""
        operators = self.graph.operators
        written = {i for o in operators for i in o.outputs}
        read = dict.fromkeys(i for o in operators for i in o.inputs)
        tensors = self.graph.tensors
        self.graph.inputs = [i for i in read if i not in written and not tensors[i].buffer]
        self.graph.outputs = operators[-1].outputs
        self.model.subgraphs = [self.graph]
        builder = flatbuffers.Builder()
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def build(self, builtin: str, inputs: list[int], outputs: list[int], options: Any) -> bytes:
        """A file of one operator."""
        self.add(builtin, inputs, outputs, options)
        return self.pack()


def require_integers_of_litert(
    content: bytes, feed: dict[str, Any], *, integers: bool = True
) -> None:
    """The executor computes a file's outputs as LiteRT's reference kernels do."""
    graph = open_model(content)
    found = Executor(graph, "litert").run(feed)
    for name, array in LitertModel(content, kernels="reference").run(feed).items():
        np.testing.assert_array_equal(found[name], array)
    if integers:
        assert "float" not in {
            s.runs for s in list_node_statuses(graph, "litert") if s.op == "Gemm"
        }
    assert {get_name(v) for v in graph.outputs} == {*found}
