"""The model as rewrites and the solver see it: a few verbs over onnx_ir, ONNX's own in-memory graph.

Reading gives every node a unique name, takes functions apart, and makes initializers of what is constant in
name only (initializers listed among the inputs, Constant nodes), so that nobody downstream asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference
import onnx.version_converter
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes import common as passes

from ptq.core.errors import ModelError, short_message
from ptq.model import external_data
from ptq.model.load import read, read_proto, to_ir
from ptq.model.node import Node, Value, name_of
from ptq.model.subgraph import extract_subgraph


class Graph:
    """One model, open for reading and rewriting; names of inputs, outputs and surviving tensors stay."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._names = {name_of(v) for v in self._values()}
        self._names.update(node.name for node in model.graph.all_nodes() if node.name)
        self._next_suffixes: dict[str, int] = {}

    @property
    def _graph(self) -> ir.Graph:
        return self._model.graph

    def _values(self) -> Iterable[Value]:
        yield from self._graph.inputs
        for node in self._graph.all_nodes():
            yield from (v for v in node.outputs if v.name)
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    yield from (v for v in attribute.value.inputs if v.name)
                    yield from attribute.value.initializers.values()
        yield from self._graph.initializers.values()

    # Reading and writing

    @classmethod
    def load(cls, path: str | Path) -> Graph:
        """Read a model file, external data included.

        Raises:
            ModelError: The file is missing, is not an ONNX model, or is not a valid one.
        """
        path = Path(path)
        proto, aside = read(path)
        return cls(to_ir(proto, str(path), aside))

    @classmethod
    def load_unchecked(cls, path: str | Path) -> Graph:
        """Read a file that a runtime wrote for itself, without holding it against ONNX's rules."""
        return cls(external_data.merge_weights(*read(Path(path))))

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, source: str = "the model") -> Graph:
        """Take a model that is in memory; it is not changed.

        Raises:
            ModelError: It is not a valid ONNX model.
        """
        proto, aside = read_proto(proto, source)
        return cls(to_ir(proto, source, aside))

    @classmethod
    def from_bytes(cls, data: bytes) -> Graph:
        """Take a serialized model."""
        return cls.from_proto(onnx.load_model_from_string(data))

    def to_proto(self) -> onnx.ModelProto:
        """The model as ONNX's own message, a copy; a ModelError where it is over 2 GB."""
        return external_data.to_proto(self._model)

    def to_bytes(self) -> bytes:
        """The model serialized, the same bytes for the same graph; a ModelError where it is over 2 GB."""
        data: bytes = self.to_proto().SerializeToString(deterministic=True)
        return data

    @property
    def model(self) -> ir.Model:
        """The model as `ptq.model.external_data` takes it, to be read and not changed."""
        return self._model

    def copy(self) -> Graph:
        """An independent graph to rewrite; the tensors, which nobody changes, are shared."""
        return Graph(self._model.clone())

    def digest(self) -> str:
        """SHA-256 of the graph: nodes, attributes, weights and names, without the model's metadata."""
        return external_data.graph_digest(self._model)

    # Looking

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the main graph, each after what it reads."""
        return list(self._graph)

    @property
    def inputs(self) -> list[Value]:
        """The graph's inputs."""
        return list(self._graph.inputs)

    @property
    def outputs(self) -> list[Value]:
        """The graph's outputs."""
        return list(self._graph.outputs)

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self._graph.opset_imports.get("") or self._graph.opset_imports.get("ai.onnx") or 1

    @property
    def metadata(self) -> dict[str, str]:
        """The model's metadata_props, open for writing."""
        return self._model.metadata_props

    # Changing

    def replace_model(self, other: Graph) -> None:
        """Take over the model of another graph, which is not used afterwards."""
        self._model, self._names = other._model, other._names
        self._next_suffixes = other._next_suffixes

    def unique_name(self, hint: str) -> str:
        """A name that nothing in the model has yet, ``hint`` itself where that is free."""
        name, number = hint, self._next_suffixes.get(hint, 1)
        while name in self._names:
            name, number = f"{hint}_{number}", number + 1
        self._names.add(name)
        self._next_suffixes[hint] = number  # no name is ever given back
        return name

    def add_constant(self, array: NDArray[Any], hint: str) -> Value:
        """A new initializer."""
        name = self.unique_name(hint)
        tensor = ir.tensor(np.ascontiguousarray(array) if array.ndim else array, name=name)
        value = ir.Value(
            name=name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(array.shape),
            const_value=tensor,
        )
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
        """A new node with one output; ``op`` may carry a domain, ``com.microsoft::QLinearAdd``.

        Args:
            op: Operator.
            inputs: What it reads; None for an input left out.
            before: Stands before this node.
            after: Stands after this node; with neither, the node stands last.
            attrs: Attributes as plain values.
            output: Wished name of its output, and of the node.
            dtype: Element type of the output, where known.
            shape_like: A value whose shape the output has.
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
        """Let all readers of ``old``, but for the nodes in ``keep``, read ``new``; outputs are untouched."""
        kept = set(keep)
        for use in list(old.uses()):
            if use.node not in kept:
                use.node.replace_input_with(use.idx, new)

    def substitute(
        self, old: Value, new: Value, *, keep: Iterable[Node] = (), rename_old: str = ""
    ) -> None:
        """Let ``new`` replace ``old`` for all readers, but for the nodes in ``keep``, and as a graph output.

        As a graph output ``new`` takes the name of ``old``, see `replace_output`. Elsewhere it does so if
        ``rename_old`` is given; ``old`` then gets this suffix.
        """
        if old.is_graph_output():
            self.replace_output(old, new)
        elif rename_old:
            name = name_of(old)
            old.name = self.unique_name(f"{name}_{rename_old}")
            new.name = name
        self.redirect(old, new, keep)

    def replace_output(self, old: Value, new: Value) -> None:
        """Let ``new`` be the graph output that ``old`` was, under its name; readers of ``old`` stay.

        Raises:
            ModelError: ``new`` is a graph input, another output or constant, whose own name must stay.
        """
        if new.is_graph_input() or new.is_graph_output() or new.is_initializer():
            raise ModelError(f"{new.name} cannot take the name of {old.name}: its own must stay")
        name = name_of(old)
        old.name = self.unique_name(f"{name}_unquantized")
        new.name, new.type, new.shape = name, old.type, old.shape
        for index, output in enumerate(self._graph.outputs):
            if output is old:
                self._graph.outputs[index] = new

    def remove(self, node: Node) -> None:
        """Delete a node whose outputs nobody reads any more."""
        self._graph.remove(node, safe=True)

    def remove_unused(self) -> None:
        """Delete nodes and initializers that no output depends on."""
        passes.RemoveUnusedNodesPass()(self._model)
        passes.RemoveUnusedOpsetsPass()(self._model)

    def sort(self) -> None:
        """Put every node after what it reads."""
        self._graph.sort()

    def add_outputs(self, names: Iterable[str]) -> None:
        """Make graph outputs of these values too."""
        wanted = set(names) - {name_of(v) for v in self._graph.outputs}
        for node in self._graph:
            for value in node.outputs:
                if value.name in wanted:
                    self._graph.outputs.append(value)

    def extract(
        self, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]
    ) -> Graph:
        """A model of some of the nodes alone, in the order given, with these values going in and out."""
        return Graph(extract_subgraph(self._model, nodes, inputs, outputs))

    def without_shapes(self) -> Graph:
        """The same graph with nothing said of its tensors' shapes, for feeds of other ones."""
        part = self.copy()
        for value in part._values():
            if not value.is_initializer():
                value.shape = None
        return part

    def transform_proto(self, change: Callable[[onnx.ModelProto], onnx.ModelProto]) -> Graph:
        """The graph after a transformation that only ONNX's own message knows."""
        proto, aside = external_data.proto_without_weights(self._model)
        return Graph(to_ir(change(proto), "the model", aside))

    def with_opset(self, version: int) -> Graph:
        """The same model in a newer version of ONNX's operators, by ONNX's own converter.

        Raises:
            ModelError: The converter has no rule for one of the operators.
        """
        try:
            return self.transform_proto(
                lambda proto: onnx.version_converter.convert_version(proto, version)
            )
        except (RuntimeError, onnx.checker.ValidationError, ModelError) as error:
            reason = short_message(error).rpartition(" failed: ")[
                2
            ]  # drops the converter's own place
            raise ModelError(
                f"opset {self.opset} cannot be raised to {version} ({reason}); export a newer opset"
            ) from error

    def with_shapes(self) -> Graph:
        """The same model with what ONNX's shape inference can say of its tensors.

        Raises:
            ModelError: What the model says of a tensor contradicts what its operators make.
        """
        try:
            return self.transform_proto(
                lambda p: onnx.shape_inference.infer_shapes(p, data_prop=True)
            )
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
            raise ModelError(f"the model contradicts itself: {short_message(error)}") from error
