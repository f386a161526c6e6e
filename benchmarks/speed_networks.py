"""Networks of random or constant weights for speed.py, with random samples.

    python benchmarks/speed_networks.py NAME FOLDER

writes FOLDER/model.onnx and FOLDER/calib.npz; with the name ``growth`` samples only. Their time is that of trained
networks. Their accuracy means nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

RESNET_BLOCKS = (3, 4, 6, 3)
RESNET_IMAGES, LIGHT_IMAGES = 64, 4
GROWTH = (8, 1024)
LAYERS, HIDDEN, HEADS, INNER, VOCABULARY = 12, 768, 12, 3072, 30522
TEXTS, TOKENS = 32, 64
WIDE, WIDE_LAYERS, ROWS = 8192, 8, 16


class Builder:
    """A graph that grows by one node at a time; weights are drawn from a fixed random sequence."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def add_node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return the output's name."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def add_weight(self, array: Any, dtype: Any = np.float32) -> str:
        """Add a constant; return its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def draw_weight(self, shape: tuple[int, ...], deviation: float) -> str:
        """Add a constant of normally distributed values; return its name."""
        return self.add_weight(self._random.standard_normal(shape, np.float32) * deviation)

    def add_conv(self, x: str, shape: tuple[int, int, int], *, stride: int, gain: float) -> str:
        """Add a convolution with a bias.

        Args:
            x: Its input.
            shape: Output channels, input channels, side of the kernel.
            stride: Its stride.
            gain: Standard deviation of its outputs, for inputs after Relu of deviation 1.
        """
        out, into, side = shape
        weight = self.draw_weight((out, into, side, side), gain * (2 / (into * side * side)) ** 0.5)
        pads = [side // 2] * 4
        bias = self.draw_weight((out,), 0.1)
        return self.add_node("Conv", x, weight, bias, strides=[stride, stride], pads=pads)

    def add_dense(self, x: str, into: int, out: int) -> str:
        """Add a fully connected layer as MatMul and Add."""
        product = self.add_node("MatMul", x, self.draw_weight((into, out), into**-0.5))
        return self.add_node("Add", product, self.draw_weight((out,), 0.02))

    def save(self, path: Path, inputs: list[Any], output: str, shape: list[Any]) -> None:
        """Write the model with these inputs and one output."""
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, path.stem, inputs, [result], self.weights)
        opset = helper.make_opsetid("", 17)
        onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[opset]), path)


def build_resnet50(path: Path) -> dict[str, Array]:
    """Write a ResNet-50 with batch normalization folded, as exporters write it; return its samples."""
    net = Builder()
    x = net.add_node("Relu", net.add_conv("x", (64, 3, 7), stride=2, gain=1))
    x = net.add_node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, blocks in enumerate(RESNET_BLOCKS):
        inner = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.add_node("Relu", net.add_conv(x, (inner, channels, 1), stride=1, gain=1))
            y = net.add_node("Relu", net.add_conv(y, (inner, inner, 3), stride=stride, gain=1))
            y = net.add_conv(y, (4 * inner, inner, 1), stride=1, gain=0.5)
            if not block:
                x = net.add_conv(x, (4 * inner, channels, 1), stride=stride, gain=1)
            x = net.add_node("Relu", net.add_node("Add", y, x))
            channels = 4 * inner
    x = net.add_node("Flatten", net.add_node("GlobalAveragePool", x))
    bias, weight = net.draw_weight((1000,), 0.1), net.draw_weight((1000, channels), 0.05)
    x = net.add_node("Gemm", x, weight, bias, transB=1)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 224, 224])
    net.save(path, [image], x, ["n", 1000])
    return {"x": _draw_images(RESNET_IMAGES)}


def build_bert_base(path: Path) -> dict[str, Array]:
    """Write an encoder of BERT-base's size, as PyTorch exports it with eager attention; return its samples."""
    net = Builder()
    scale, width = net.add_weight((HIDDEN // HEADS) ** 0.5), HIDDEN // HEADS
    split = net.add_weight([0, TOKENS, HEADS, width], np.int64)
    join = net.add_weight([0, TOKENS, HIDDEN], np.int64)
    words = net.add_node("Gather", net.draw_weight((VOCABULARY, HIDDEN), 0.05), "input_ids")
    x = net.add_node("Add", words, net.draw_weight((1, TOKENS, HIDDEN), 0.05))
    x = _add_layer_norm(net, x)
    axes = net.add_weight([1, 2], np.int64)
    mask = net.add_node("Unsqueeze", "attention_mask", axes)
    mask = net.add_node("Cast", mask, to=TensorProto.FLOAT)
    mask = net.add_node("Mul", net.add_node("Sub", net.add_weight(1), mask), net.add_weight(-1e4))
    for _ in range(LAYERS):
        query, key, value = (
            net.add_node("Transpose", net.add_node("Reshape", dense, split), perm=perm)
            for dense, perm in (
                (net.add_dense(x, HIDDEN, HIDDEN), order)
                for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
            )
        )
        scores = net.add_node("Div", net.add_node("MatMul", query, key), scale)
        shares = net.add_node("Softmax", net.add_node("Add", scores, mask), axis=-1)
        heads = net.add_node("Transpose", net.add_node("MatMul", shares, value), perm=[0, 2, 1, 3])
        attention = net.add_dense(net.add_node("Reshape", heads, join), HIDDEN, HIDDEN)
        x = _add_layer_norm(net, net.add_node("Add", attention, x))
        inner = _add_gelu(net, net.add_dense(x, HIDDEN, INNER))
        x = _add_layer_norm(net, net.add_node("Add", net.add_dense(inner, INNER, HIDDEN), x))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", TOKENS])
        for name in ("input_ids", "attention_mask")
    ]
    net.save(path, inputs, x, ["n", TOKENS, HIDDEN])
    random = np.random.default_rng(1)
    lengths = random.integers(TOKENS // 4, TOKENS + 1, (TEXTS, 1))
    return {
        "input_ids": random.integers(0, VOCABULARY, (TEXTS, TOKENS)),
        "attention_mask": (np.arange(TOKENS) < lengths).astype(np.int64),
    }


def _add_layer_norm(net: Builder, x: str) -> str:
    gain, shift = net.add_weight(np.ones(HIDDEN)), net.draw_weight((HIDDEN,), 0.1)
    return net.add_node("LayerNormalization", x, gain, shift, axis=-1, epsilon=1e-12)


def _add_gelu(net: Builder, x: str) -> str:
    erf = net.add_node("Erf", net.add_node("Div", x, net.add_weight(2**0.5)))
    product = net.add_node("Mul", x, net.add_node("Add", erf, net.add_weight(1)))
    return net.add_node("Mul", product, net.add_weight(0.5))


def build_two_gigabytes(path: Path) -> dict[str, Array]:
    """Write a few large layers with 2 GB of weights in a second file; return its samples."""
    net, location = Builder(), f"{path.name}.data"
    random, x = np.random.default_rng(0), "x"
    with open(path.with_name(location), "wb") as file:
        for layer in range(WIDE_LAYERS):
            weight = onnx.TensorProto(name=f"weight_{layer}", data_type=TensorProto.FLOAT)
            weight.dims.extend((WIDE, WIDE))
            weight.data_location = onnx.TensorProto.EXTERNAL
            for key, value in ("location", location), ("offset", str(file.tell())):
                weight.external_data.add(key=key, value=value)
            file.write((random.standard_normal((WIDE, WIDE), np.float32) * WIDE**-0.5).data)
            net.weights.append(weight)
            bias = net.draw_weight((WIDE,), 0.1)
            x = net.add_node("Gemm", x, weight.name, bias)
            if layer < WIDE_LAYERS - 1:
                x = net.add_node("Relu", x)
    row = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDE])
    net.save(path, [row], x, ["n", WIDE])
    return {"x": np.maximum(random.standard_normal((ROWS, WIDE), np.float32), 0)}


def copy_light_model(name: str, path: Path) -> dict[str, Array]:
    """Write a network that the onnx package tests runtimes with; its weights are constant. Return its samples.

    Raises:
        FileNotFoundError: The installed onnx package has no such file.
    """
    source = Path(onnx.__file__).parent / f"backend/test/data/light/{name}.onnx"
    path.write_bytes(source.read_bytes())
    graph = onnx.load(source).graph
    weights = {weight.name for weight in graph.initializer}
    [given] = (i.name for i in graph.input if i.name not in weights)
    return {given: _draw_images(LIGHT_IMAGES)}


def write_growing_samples(folder: Path) -> None:
    """Write files of few and of many samples for the network of sample_data; the few are the first ones."""
    model = onnx.load(Path(__file__).parent.parent / "sample_data" / "fashion_mobilenet.onnx")
    random = np.random.default_rng(0)
    coarse = random.standard_normal((max(GROWTH), 1, 7, 7), np.float32).repeat(4, 2).repeat(4, 3)
    images = coarse + 0.2 * random.standard_normal(coarse.shape, np.float32)
    for count in GROWTH:
        np.savez(folder / f"{count}.npz", **{model.graph.input[0].name: images[:count]})


def _draw_images(count: int) -> Array:
    """Draw normalized images, float32 with shape (count, 3, 224, 224), smooth like photographs."""
    random = np.random.default_rng(1)
    coarse = random.standard_normal((count, 3, 28, 28), np.float32)
    fine = 0.2 * random.standard_normal((count, 3, 224, 224), np.float32)
    return coarse.repeat(8, axis=2).repeat(8, axis=3) + fine


NETWORKS: Mapping[str, Callable[[Path], dict[str, Array]]] = {
    "bert_base": build_bert_base,
    "resnet50": build_resnet50,
    "light_vgg19": partial(copy_light_model, "light_vgg19"),
    "light_densenet121": partial(copy_light_model, "light_densenet121"),
    "two_gigabytes": build_two_gigabytes,
}


def main() -> None:
    """Write the network and the samples that the arguments name."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if name == "growth":
        write_growing_samples(folder)
        return
    np.savez(folder / "calib.npz", **NETWORKS[name](folder / "model.onnx"))


if __name__ == "__main__":
    main()
