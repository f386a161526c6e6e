"""The model as rewrites and the solver see it: a few operations over onnx_ir, ONNX's own in-memory graph.

Reading gives every node a unique name and inlines functions. It turns Constant nodes, and initializers that are
listed among the inputs, into plain initializers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir
from numpy.typing import NDArray
from onnx.version_converter import convert_version
from onnx_ir.passes import common as passes

from ptq.core.errors import ModelError, shorten_message
from ptq.model.node import Node, Value, get_name, list_named_values
from ptq.model.proto import external_data, serialize
from ptq.model.proto.load import read, read_proto, to_ir, to_ir_with_types
from ptq.model.proto.subgraph import extract_subgraph

ProtoChange = Callable[[onnx.ModelProto], onnx.ModelProto]


class Graph:
    """One model, to read and rewrite. Inputs, outputs and remaining tensors keep their names."""

    def __init__(self, model: ir.Model, target: str = "") -> None:
        self._model, self.target = model, target
        self._names = {get_name(v) for v in list_named_values(model.graph)}
        self._names.update(node.name for node in model.graph.all_nodes() if node.name)
        self._next_suffixes: dict[str, int] = {}

    @property
    def _graph(self) -> ir.Graph:
        return self._model.graph

    # Reading and writing

    @classmethod
    def load(cls, path: str | Path) -> Graph:
        """Read a model file, external data included.

        Raises:
            ModelError: The file is missing, is not an ONNX model, or is not a valid one.
        """
        proto, detached = read(Path(path))
        return cls(to_ir(proto, str(Path(path)), detached))

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto) -> Graph:
        """Read a model in memory; it is not changed.

        Raises:
            ModelError: It is not a valid ONNX model.
        """
        proto, detached = read_proto(proto, "the model")
        return cls(to_ir(proto, "the model", detached))

    def to_proto(self) -> onnx.ModelProto:
        """The model as an ONNX message, a copy; raises ModelError above 2 GB."""
        return external_data.to_proto(self._model)

    def to_bytes(self) -> bytes:
        """The serialized model, equal bytes for equal graphs; raises ModelError above 2 GB."""
        return b"".join(serialize.to_pieces(self._model))

    @property
    def model(self) -> ir.Model:
        """The underlying onnx_ir model, for `ptq.model.proto.external_data`. Do not change it."""
        return self._model

    def copy(self) -> Graph:
        """An independent graph to rewrite. It shares the tensors, which no code changes."""
        return Graph(self._model.clone(), self.target)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_model": external_data.detach_weights(self._model)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _model=external_data.merge_weights(*state["_model"]))

    def __deepcopy__(self, memo: object) -> Graph:
        return self.copy()

    def digest(self) -> str:
        """SHA-256 of nodes, attributes, weights and names, without the model's metadata."""
        return serialize.digest_graph(self._model)

    # Queries

    @property
    def nodes(self) -> list[Node]:
        """Nodes of the main graph in topological order."""
        return list(self._graph)

    @property
    def inputs(self) -> list[Value]:
        """Inputs of the graph."""
        return list(self._graph.inputs)

    @property
    def outputs(self) -> list[Value]:
        """Outputs of the graph."""
        return list(self._graph.outputs)

    @property
    def opset(self) -> int:
        """Version of ONNX's own operators."""
        return self._graph.opset_imports.get("") or self._graph.opset_imports.get("ai.onnx") or 1

    @property
    def metadata(self) -> dict[str, str]:
        """The model's metadata_props, writable."""
        return self._model.metadata_props

    # Changes

    def replace_model(self, other: Graph) -> None:
        """Take over the model of another graph, which is not used afterwards."""
        self._model, self._names = other._model, other._names
        self._next_suffixes = other._next_suffixes

    def unique_name(self, hint: str) -> str:
        """A name that is not used in the model: ``hint`` itself if it is free."""
        name, number = hint, self._next_suffixes.get(hint, 1)
        while name in self._names:
            name, number = f"{hint}_{number}", number + 1
        self._names.add(name)
        self._next_suffixes[hint] = number  # names are never reused
        return name

    def add_constant(self, content: NDArray[Any] | ir.LazyTensor, hint: str) -> Value:
        """Add an initializer."""
        name = self.unique_name(hint)
        if isinstance(content, ir.LazyTensor):
            tensor: ir.TensorProtocol = content
        else:
            array = np.ascontiguousarray(content) if content.ndim else np.asarray(content)
            tensor = ir.Tensor(array, name=name)  # ir.tensor takes ten times as long
        kind, shape = ir.TensorType(tensor.dtype), ir.Shape(content.shape)
        value = ir.Value(name=name, type=kind, shape=shape, const_value=tensor)
        self._graph.register_initializer(value)
        return value

    def insert(
        self,
        op: str,
        inputs: Sequence[Value | None],
        *,
        before: Node | None = None,
        after: Node | None = None,
        attrs: Mapping[str, Any] | None = None,
        output: str,
        dtype: np.dtype[Any] | None = None,
        shape_like: Value | None = None,
    ) -> Value:
        """Add a node with one output, and return the output.

        Args:
            op: Operator, with a domain if it is not ONNX's own: ``com.microsoft::QLinearAdd``.
            inputs: Inputs of the node; None for an omitted input.
            before: Existing node that the new one precedes.
            after: Existing node that the new one follows. With neither, the new node is the last.
            attrs: Attributes as plain values.
            output: Preferred name of the output, from which the node's name is made too.
            dtype: Element type of the output, if known.
            shape_like: A value that has the output's shape.
        """
        domain, _, kind = op.rpartition("::")
        node = ir.node(kind, list(inputs), dict(attrs or {}), domain=domain, num_outputs=1)
        node.name = self.unique_name(f"{output}_{kind}")
        result = node.outputs[0]
        result.name = self.unique_name(output)
        if dtype is not None:
            result.type = ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype)))
        if shape_like is not None:
            result.shape = shape_like.shape
        if before is not None:
            self._graph.insert_before(before, node)
        elif after is not None:
            self._graph.insert_after(after, node)
        else:
            self._graph.append(node)
        if domain and domain not in self._graph.opset_imports:
            self._graph.opset_imports[domain] = 1
        return result

    def redirect(self, old: Value, new: Value, keep: Iterable[Node] = ()) -> None:
        """Make readers of ``old`` read ``new``, except the nodes in ``keep``. Graph outputs stay."""
        kept = set(keep)
        for use in list(old.uses()):
            if use.node not in kept:
                use.node.replace_input_with(use.idx, new)

    def substitute(
        self, old: Value, new: Value, *, keep: Iterable[Node] = (), rename_old: str = ""
    ) -> None:
        """Replace ``old`` by ``new`` in all readers but ``keep``, and as a graph output by `replace_output`.

        With ``rename_old`` it takes the name of ``old``, which gets that suffix.
        """
        if old.is_graph_output():
            self.replace_output(old, new)
        elif rename_old:
            name = get_name(old)
            old.name = self.unique_name(f"{name}_{rename_old}")
            new.name = name
        self.redirect(old, new, keep)

    def replace_output(self, old: Value, new: Value) -> None:
        """Make ``new`` the graph output in place of ``old``, with its name; ``old`` keeps its readers.

        Raises:
            ModelError: ``new`` is a graph input, a graph output or a constant, so it must keep its name.
        """
        if new.is_graph_input() or new.is_graph_output() or new.is_initializer():
            kind = "is a graph input, output or constant"
            raise ModelError(f"cannot rename {new.name} to {old.name}: {new.name} {kind}")
        name = get_name(old)
        old.name = self.unique_name(f"{name}_unquantized")
        new.name, new.type, new.shape = name, old.type, old.shape
        for index, output in enumerate(self._graph.outputs):
            if output is old:
                self._graph.outputs[index] = new

    def remove(self, node: Node) -> None:
        """Delete a node whose outputs have no reader."""
        self._graph.remove(node, safe=True)

    def remove_unused(self) -> None:
        """Delete nodes and initializers on which no output depends."""
        passes.RemoveUnusedNodesPass()(self._model)
        passes.RemoveUnusedOpsetsPass()(self._model)

    def sort(self) -> None:
        """Sort the nodes topologically."""
        self._graph.sort()

    def add_outputs(self, names: Iterable[str]) -> None:
        """Make these values graph outputs too."""
        added = set(names) - {get_name(v) for v in self._graph.outputs}
        made = (value for node in self._graph for value in node.outputs)
        self._graph.outputs.extend(value for value in made if value.name in added)

    def set_outputs(self, values: Sequence[Value]) -> None:
        """Make these values the only graph outputs."""
        self._graph.outputs[:] = values

    def make_input(self, constant: Value, rank: int) -> None:
        """Make an initializer a graph input with so many axes, all of any length."""
        del self._graph.initializers[get_name(constant)]
        constant.const_value = None
        constant.shape = ir.Shape([None] * rank)
        self._graph.inputs.append(constant)

    def extract(
        self, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]
    ) -> Graph:
        """A graph of some of the nodes, in the given order, with these inputs and outputs."""
        return Graph(extract_subgraph(self._model, nodes, inputs, outputs), self.target)

    def transform_proto(self, change: ProtoChange) -> Graph:
        """The graph after a change of its ONNX message."""
        proto, weights = external_data.detach_weights(self._model)
        return Graph(to_ir(change(proto), "the model", weights))

    def with_opset(self, version: int, first: ProtoChange = lambda proto: proto) -> Graph:
        """The model in a newer opset, made by ONNX's own converter from the message that ``first`` returns.

        Raises:
            ModelError: The converter has no rule for one of the operators.
        """
        try:
            return self.transform_proto(lambda proto: convert_version(first(proto), version))
        except (RuntimeError, onnx.checker.ValidationError, ModelError) as error:
            # the text before " failed: " names a place in the converter's source
            reason = shorten_message(error).rpartition(" failed: ")[2]
            raise ModelError(
                f"opset {self.opset} cannot be raised to {version} ({reason}); export a newer opset"
            ) from error

    def with_shapes(self) -> Graph:
        """The model with types and shapes from ONNX's shape inference.

        Raises:
            ModelError: A declared type or shape contradicts the operators.
        """
        proto, weights = external_data.detach_weights(self._model)
        try:
            proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
            raise ModelError(f"the model contradicts itself: {shorten_message(error)}") from error
        return Graph(to_ir_with_types(proto, weights))
