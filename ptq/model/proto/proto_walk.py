"""Iteration over the graphs, nodes and tensors of a model's message, at any depth."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

Body = onnx.GraphProto | onnx.FunctionProto


def list_bodies(proto: onnx.ModelProto) -> Iterator[Body]:
    """The main graph, the functions and all graphs inside nodes; an inner graph precedes the outer one."""
    for body in (proto.graph, *proto.functions):
        yield from _walk_body(body)


def list_nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Nodes of all graphs and functions."""
    for body in list_bodies(proto):
        yield from body.node


def list_subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Graphs that are attributes of the node, without the graphs inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def list_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Initializers and tensor attributes of all graphs and functions."""
    for body in list_bodies(proto):
        if isinstance(body, onnx.GraphProto):
            yield from body.initializer
        for attribute in (attribute for node in body.node for attribute in node.attribute):
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _walk_body(body: Body) -> Iterator[Body]:
    for graph in (graph for node in body.node for graph in list_subgraphs(node)):
        yield from _walk_body(graph)
    yield body
