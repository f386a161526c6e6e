"""Which numbers does a model press into probabilities, as its last step?

Where a sample is clear, a Softmax or Sigmoid hides any error of the numbers that it reads, so that a few samples on
the fence decide which of two models comes out nearer to float. On the numbers themselves all samples tell.
"""

from __future__ import annotations

import onnx

from ptq.graph import Graph
from ptq.nodes import Value, constant, name_of, operator

_PRESSING = frozenset(["Softmax", "LogSoftmax", "Sigmoid"])
_MOVING = frozenset(["Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"])


def scores(graph: Graph) -> Graph:
    """The graph with what its last Softmax, LogSoftmax or Sigmoid reads as output instead; itself without any."""
    found = {name_of(value): name_of(score(value)) for value in graph.outputs}
    if all(before == after for before, after in found.items()):
        return graph

    def change(proto: onnx.ModelProto) -> onnx.ModelProto:
        known = {info.name: info for info in (*proto.graph.value_info, *proto.graph.output)}
        wanted = {
            after: known.get(after) or _alike(known[before], after)
            for before, after in found.items()
        }
        del proto.graph.output[:], proto.graph.value_info[:]
        proto.graph.output.extend(wanted.values())
        proto.graph.value_info.extend(info for name, info in known.items() if name not in wanted)
        return proto

    return graph.rebuilt(change)


def score(output: Value) -> Value:
    """What the output's probabilities are made of; the output itself where it holds none."""
    value, seen = output, output.producer()
    while seen is not None and operator(seen) in _MOVING and seen.inputs[0] is not None:
        value = seen.inputs[0]
        seen = value.producer()
    if seen is None or operator(seen) not in _PRESSING or seen.inputs[0] is None:
        return output
    source = seen.inputs[0]
    plain = source.is_graph_input() or constant(source) is not None or source.producer() is None
    return output if plain else source


def _alike(info: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """Another value of the same type, of which no shape is known."""
    other = onnx.ValueInfoProto(name=name)
    other.type.tensor_type.elem_type = info.type.tensor_type.elem_type
    return other
