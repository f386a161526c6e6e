"""TensorRT's rules on whole networks of the usual kinds, with BatchNormalization folded and as exporters write it.

The oracle is the written graph itself, read without the checker of `ptq lint`; the checker must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.model.graph import Graph
from ptq.model.node import Node, get_dtype, get_operator, list_consumers

ACTIVATIONS = {
    "Clip",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "PRelu",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Gelu",
}
PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}


class Lines:
    """A network in text, one layer after another, with random weights."""

    def __init__(self, *, raw: bool = False) -> None:
        self.raw, self.text, self.weights = raw, list[str](), dict[str, Any]()

    def constant(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def node(self, text: str) -> str:
        name = f"t{len(self.text)}"
        self.text.append(f"{name} = {text}")
        return name

    def gaussian(self, *shape: int, scale: float = 1.0) -> str:
        array = gaussian_array(*shape, seed=len(self.weights), scale=scale)
        return self.constant(array)

    def conv(
        self, x: str, inputs: int, outputs: int, kernel: int = 3, group: int = 1, stride: int = 1
    ) -> str:
        """A convolution with a bias, or one without and a BatchNormalization behind it (``raw``)."""
        depth, pad = inputs // group, kernel // 2
        w = self.gaussian(
            outputs, depth, kernel, kernel, scale=(2 / (depth * kernel * kernel)) ** 0.5
        )
        attributes = f"<pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}], group = {group}>"
        if not self.raw:
            return self.node(f"Conv{attributes}({x}, {w}, {self.gaussian(outputs, scale=0.1)})")
        y = self.node(f"Conv{attributes}({x}, {w})")
        rest = [self.gaussian(outputs, scale=0.1) for _ in range(2)]
        positive = [self.constant(np.linspace(0.5, 2, outputs, dtype=np.float32)) for _ in range(2)]
        return self.node(
            f"BatchNormalization({y}, {positive[0]}, {rest[0]}, {rest[1]}, {positive[1]})"
        )

    def relu6(self, x: str) -> str:
        return self.node(
            f"Clip({x}, {self.constant(np.float32(0))}, {self.constant(np.float32(6))})"
        )

    def head(self, x: str, inputs: int, *ends: str) -> onnx.ModelProto:
        """Pooling, a dense layer for each end, and the end's function."""
        f = self.node(f"Flatten({self.node(f'GlobalAveragePool({x})')})")
        outputs = []
        for end in ends:
            y = self.node(f"Gemm({f}, {self.gaussian(inputs, 5, scale=0.3)}, {self.gaussian(5)})")
            outputs.append(self.node(f"{end}({y})") if end else y)
        return build_network(
            "\n".join(self.text), {"x": (1, 3, 16, 16)}, outputs, opset=20, **self.weights
        )


def residual_network(raw: bool) -> onnx.ModelProto:
    """Two residual blocks, the second one with a convolution in the shortcut."""
    b = Lines(raw=raw)
    x = b.node(f"Relu({b.conv('x', 3, 8)})")
    for outputs, stride in ((8, 1), (16, 2)):
        inner = b.node(f"Relu({b.conv(x, 8, outputs, stride=stride)})")
        shortcut = x if stride == 1 else b.conv(x, 8, outputs, 1, stride=stride)
        x = b.node(f"Relu({b.node(f'Add({b.conv(inner, outputs, outputs)}, {shortcut})')})")
    return b.head(x, 16, "")


def mobile_network(raw: bool) -> onnx.ModelProto:
    """Inverted bottlenecks with depthwise convolutions and Clip, as in MobileNetV2 and EfficientNet-Lite."""
    b = Lines(raw=raw)
    x = b.relu6(b.conv("x", 3, 8, stride=2))
    for _ in range(2):
        wide = b.relu6(b.conv(x, 8, 24, 1))
        wide = b.relu6(b.conv(wide, 24, 24, group=24))
        x = b.node(f"Add({b.conv(wide, 24, 8, 1)}, {x})")
    return b.head(x, 8, "")


def gated_network(raw: bool) -> onnx.ModelProto:
    """HardSwish and channel gates, as in MobileNetV3 and text recognizers."""
    b = Lines(raw=raw)
    x = b.node(f"HardSwish({b.conv('x', 3, 8)})")
    gate = b.node(f"Relu({b.conv(b.node(f'GlobalAveragePool({x})'), 8, 4, 1)})")
    gate = b.node(f"HardSigmoid({b.conv(gate, 4, 8, 1)})")
    x = b.node(f"HardSwish({b.conv(b.node(f'Mul({x}, {gate})'), 8, 8, group=8)})")
    return b.head(x, 8, "Softmax")


def face_network(raw: bool) -> onnx.ModelProto:
    """PRelu, pools and two heads, as in detectors of faces."""
    b = Lines(raw=raw)
    slope = b.constant(np.full((8, 1, 1), 0.2, np.float32))
    x = b.node(f"PRelu({b.conv('x', 3, 8)}, {slope})")
    x = b.node(f"MaxPool<kernel_shape = [3, 3], strides = [2, 2]>({x})")
    x = b.node(f"PRelu({b.conv(x, 8, 8)}, {slope})")
    return b.head(x, 8, "Softmax", "")


def branching_network(raw: bool) -> onnx.ModelProto:
    """Branches, Concat, Resize and a transposed convolution, as in detectors and decoders."""
    b = Lines(raw=raw)
    x = b.node(f"LeakyRelu({b.conv('x', 3, 8, stride=2)})")
    left, right = b.node(f"Sigmoid({b.conv(x, 8, 8)})"), b.node(f"Tanh({b.conv(x, 8, 8, 1)})")
    x = b.node(f"Concat<axis = 1>({left}, {right})")
    x = b.node(f"ConvTranspose<strides = [2, 2]>({x}, {b.gaussian(16, 8, 2, 2, scale=0.2)})")
    scales = b.constant(np.array([1, 1, 2, 2], np.float32))
    x = b.node(f"Relu({x})")
    x = b.node(f'Resize<mode = "nearest">({x}, , {scales})')
    return b.head(b.node(f"Relu({b.conv(x, 8, 8)})"), 8, "Sigmoid")


def vision_transformer(raw: bool) -> onnx.ModelProto:
    """Patches, attention and a dense part with Gelu; ``raw`` writes the patches' convolution with a norm."""
    b = Lines(raw=raw)
    sizes = b.constant(np.array([0, 8, -1], np.int64))
    x = b.node(f"Reshape({b.conv('x', 3, 8, 4, stride=4)}, {sizes})")
    x = b.node(f"Transpose<perm = [0, 2, 1]>({x})")
    scale, shift = b.constant(np.linspace(0.5, 2, 8, dtype=np.float32)), b.gaussian(8, scale=0.1)
    n = b.node(f"LayerNormalization<axis = -1>({x}, {scale}, {shift})")
    q, k, v = (
        b.node(
            f"Add({b.node(f'MatMul({n}, {b.gaussian(8, 8, scale=0.3)})')}, {b.gaussian(8, scale=0.1)})"
        )
        for _ in range(3)
    )
    t = b.node(f"Transpose<perm = [0, 2, 1]>({k})")
    p = b.node(f"Softmax({b.node(f'MatMul({q}, {t})')})")
    x = b.node(f"Add({x}, {b.node(f'MatMul({p}, {v})')})")
    h = b.node(f"Gelu({b.node(f'MatMul({x}, {b.gaussian(8, 16, scale=0.3)})')})")
    x = b.node(f"Add({x}, {b.node(f'MatMul({h}, {b.gaussian(16, 8, scale=0.3)})')})")
    return b.head(b.node(f"Transpose<perm = [0, 2, 1]>({x})"), 8, "")


NETWORKS: tuple[Callable[[bool], onnx.ModelProto], ...] = (
    residual_network, mobile_network, gated_network, face_network, branching_network, vision_transformer,
)  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[(build, raw) for build in NETWORKS for raw in (False, True)],
    ids=lambda given: f"{given[0].__name__}{' with BatchNormalization' if given[1] else ''}",
)
def graph(request: pytest.FixtureRequest) -> Graph:
    """A network in the form for TensorRT."""
    build, raw = request.param
    samples = {"x": gaussian_array(16, 3, 16, 16, seed=9)}
    model = build(raw)
    assert ("BatchNormalization" in {node.op_type for node in model.graph.node}) is raw
    return ptq.quantize(
        model, samples, target="tensorrt", effort="fast", force=True
    ).graph.with_shapes()


def _behind_quantizers(node: Node) -> Iterator[Node]:
    """Readers of what a layer writes, behind a QuantizeLinear and its DequantizeLinear."""
    for quantizer in list_consumers(node.outputs[0]):
        if get_operator(quantizer) == "QuantizeLinear":
            for back in list_consumers(quantizer.outputs[0]):
                yield from list_consumers(back.outputs[0])


def test_every_dequantizer_reads_int8(graph: Graph) -> None:
    read = [n.inputs[0] for n in graph.nodes if get_operator(n) == "DequantizeLinear"]
    assert len(read) > 4
    assert {str(get_dtype(value)) for value in read if value is not None} == {"int8"}


def test_no_quantizer_stands_between_a_layer_and_its_activation(graph: Graph) -> None:
    layers = [node for node in graph.nodes if get_operator(node) in PRODUCTS]
    between = [
        (layer.name, get_operator(reader))
        for layer in layers
        for reader in _behind_quantizers(layer)
        if get_operator(reader) in ACTIVATIONS
    ]
    assert between == []
    fused = [
        r for n in layers for r in list_consumers(n.outputs[0]) if get_operator(r) in ACTIVATIONS
    ]
    assert fused  # the network has activations behind its layers


def test_the_checker_finds_nothing(graph: Graph) -> None:
    assert ptq.lint(graph, target="tensorrt") == ()


def test_outputs_are_float(graph: Graph) -> None:
    makers = [value.producer() for value in graph.outputs]
    assert "DequantizeLinear" not in {get_operator(node) for node in makers if node is not None}
