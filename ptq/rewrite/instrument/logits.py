"""Which numbers does a model press into probabilities, as its last step?

Where a sample is clear, a Softmax or Sigmoid hides any error of the numbers that it reads, so that a few samples on
the fence decide which of two models comes out nearer to float. On the numbers themselves all samples tell. What is
joined at the end is told apart for the same reason: the part of the largest numbers would hide the others.
"""

from __future__ import annotations

import onnx

from ptq.model.graph import Graph
from ptq.model.node import Value, constant_of, name_of, operator_of

_PROBABILITY_OPS = frozenset(["Softmax", "LogSoftmax", "Sigmoid"])
_DATA_MOVEMENT_OPS = frozenset(
    ["Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"]
)


def logits_graph(graph: Graph) -> Graph:
    """The graph with what its outputs are made of put out instead; itself where that is the outputs.

    What a last Softmax, LogSoftmax or Sigmoid reads, and each part of what a last Concat joins: beside boxes in
    pixels nobody sees an error of scores.
    """
    found = {name_of(value): [name_of(v) for v in logits_of(value)] for value in graph.outputs}
    if all([before] == after for before, after in found.items()):
        return graph

    def change(proto: onnx.ModelProto) -> onnx.ModelProto:
        known = {info.name: info for info in (*proto.graph.value_info, *proto.graph.output)}
        wanted = {
            after: known.get(after) or _info_of_same_type(known[before], after)
            for before, parts in found.items()
            for after in parts
        }
        del proto.graph.output[:], proto.graph.value_info[:]
        proto.graph.output.extend(wanted.values())
        proto.graph.value_info.extend(info for name, info in known.items() if name not in wanted)
        return proto

    return graph.transform_proto(change)


def logits_of(output: Value) -> list[Value]:
    """What the output's probabilities are made of, part by part; the output itself where it holds none."""
    value, seen = output, output.producer()
    while (
        seen is not None and operator_of(seen) in _DATA_MOVEMENT_OPS and seen.inputs[0] is not None
    ):
        value = seen.inputs[0]
        seen = value.producer()
    if seen is not None and operator_of(seen) == "Concat":
        parts = [part for part in seen.inputs if part is not None and _is_computed(part)]
        return [source for part in parts for source in logits_of(part)] or [output]
    if seen is None or operator_of(seen) not in _PROBABILITY_OPS or seen.inputs[0] is None:
        return [output]
    return [seen.inputs[0]] if _is_computed(seen.inputs[0]) else [output]


def _is_computed(value: Value) -> bool:
    """Whether a node computes it from samples."""
    return constant_of(value) is None and value.producer() is not None


def _info_of_same_type(info: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """Another value of the same type, of which no shape is known."""
    other = onnx.ValueInfoProto(name=name)
    other.type.tensor_type.elem_type = info.type.tensor_type.elem_type
    return other
