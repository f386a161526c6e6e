"""Which layers OpenVINO computes faster in float: first layers and depthwise ones, in networks of random weights.

    pip install "onnx-ptq[openvino]"
    python benchmarks/openvino_layers.py [--results FILE]

Each network has a first convolution, blocks of pointwise, depthwise and pointwise convolutions, and a dense layer.
Four files of each run in turns on one thread: all layers on integers, the first in float, the depthwise ones, and
both. Networks of squeeze-and-excitation have two: all on integers, and the layers of one pixel in float.

The environment variable ``ONEDNN_MAX_CPU_ISA`` (``AVX512_CORE_VNNI``, ``AVX2_VNNI``) makes OpenVINO run the kernels
of older processors. The last line fits the numbers of first layers in `ptq.solver.partition.float_layers`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper
from result_files import read_commit
from targets import compile_in_openvino_of, measure_times

import ptq
from ptq.core import targets


@dataclass(frozen=True)
class Shape:
    """A network: channels and height of its input, whose width is ``aspect`` times that, and its first layer."""

    before: int
    side: int
    channels: int
    kernel: int
    stride: int
    activation: str
    expansion: int
    depthwise: int = 3
    aspect: int = 1
    blocks: int = 3

    @property
    def first_input(self) -> int:
        """Elements of the input."""
        return self.before * self.side * self.side * self.aspect

    @property
    def first_products(self) -> int:
        """Multiplications of the first layer."""
        pixels = (self.side // self.stride) * (self.side * self.aspect // self.stride)
        return pixels * self.channels * self.before * self.kernel**2


SHAPES = (
    Shape(3, 32, 8, 3, 2, "Relu", 4), Shape(3, 32, 16, 3, 2, "HardSwish", 4), Shape(1, 28, 32, 3, 1, "Relu", 2),
    Shape(1, 28, 16, 5, 1, "HardSwish", 4), Shape(3, 64, 16, 3, 2, "Relu", 6), Shape(3, 64, 32, 3, 2, "HardSwish", 4),
    Shape(3, 96, 8, 3, 2, "HardSwish", 6), Shape(3, 112, 16, 3, 2, "Relu", 4), Shape(3, 112, 32, 3, 2, "Relu", 4),
    Shape(3, 112, 32, 3, 2, "HardSwish", 4), Shape(3, 64, 64, 8, 8, "Relu", 2), Shape(3, 224, 32, 3, 2, "Relu", 3),
    Shape(3, 224, 16, 3, 2, "HardSwish", 3), Shape(3, 224, 64, 7, 2, "Relu", 1, blocks=1),
    Shape(3, 224, 192, 16, 16, "Relu", 1, blocks=1), Shape(3, 112, 64, 7, 2, "HardSwish", 1, blocks=1),
    Shape(3, 48, 24, 3, 2, "HardSwish", 4, 5, 4), Shape(3, 64, 24, 3, 2, "HardSwish", 4, 5),
    Shape(3, 64, 24, 3, 2, "Relu", 4, 5), Shape(3, 96, 24, 3, 2, "HardSwish", 4),
    Shape(3, 64, 40, 3, 4, "HardSwish", 6, 5), Shape(3, 64, 40, 3, 4, "Relu", 6, 5),
)  # fmt: skip


def build_network(shape: Shape) -> ModelProto:
    """A network of random weights."""
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {}
    lines: list[str] = []

    def add_conv(
        x: str, y: str, before: int, after: int, kernel: int, stride: int, groups: int
    ) -> None:
        size = (after, before // groups, kernel, kernel)
        weights[f"w_{y}"] = rng.normal(0, np.sqrt(2 / np.prod(size[1:])), size)
        weights[f"b_{y}"] = rng.normal(0, 0.1, after)
        pad = 0 if stride == kernel > 1 else kernel // 2
        lines.append(
            f"{y} = Conv<kernel_shape = [{kernel}, {kernel}], pads = [{pad}, {pad}, {pad}, {pad}], "
            f"strides = [{stride}, {stride}], group = {groups}, dilations = [1, 1]>({x}, w_{y}, b_{y})"
        )

    add_conv("x", "first", shape.before, shape.channels, shape.kernel, shape.stride, 1)
    lines.append(f"a = {shape.activation}(first)")
    last, inner = "a", shape.channels * shape.expansion
    for n in range(shape.blocks):
        add_conv(last, f"e{n}", shape.channels, inner, 1, 1, 1)
        lines.append(f"ea{n} = {shape.activation}(e{n})")
        add_conv(f"ea{n}", f"depthwise{n}", inner, inner, shape.depthwise, 1, inner)
        lines.append(f"da{n} = {shape.activation}(depthwise{n})")
        add_conv(f"da{n}", f"p{n}", inner, shape.channels, 1, 1, 1)
        lines.append(f"s{n} = Add(p{n}, {last})")
        last = f"s{n}"
    weights["w"] = rng.normal(0, 0.1, (10, shape.channels))
    lines.append(f"g = GlobalAveragePool({last}) h = Flatten(g) y = Gemm<transB = 1>(h, w)")
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, {shape.before}, {shape.side}, '
        f"{shape.side * shape.aspect}] x) => (float[1, 10] y) {{ {' '.join(lines)} }}"
    )
    for node in model.graph.node:
        node.name = node.output[0]
    arrays = {name: np.asarray(array, np.float32) for name, array in weights.items()}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return model


GATES = ((16, 4), (32, 8), (64, 16), (128, 32), (200, 50), (480, 120), (960, 240))
"""Channels of networks with squeeze-and-excitation, and to how many these are squeezed."""
_GATES_OF_A_NETWORK = 6


def build_gates(channels: int, squeezed: int) -> ModelProto:
    """A network of blocks of squeeze-and-excitation and a pointwise convolution, with random weights."""
    rng = np.random.default_rng(0)
    weights, lines, last = dict[str, Any](), list[str](), "x"
    for n in range(_GATES_OF_A_NETWORK):
        for name, after, before in (
            ("s", squeezed, channels),
            ("e", channels, squeezed),
            ("p", channels, channels),
        ):
            weights[f"w_{name}{n}"] = rng.normal(0, before**-0.5, (after, before, 1, 1)).astype(
                np.float32
            )
        lines.append(
            f"g{n} = GlobalAveragePool({last}) s{n} = Conv(g{n}, w_s{n}) r{n} = Relu(s{n}) e{n} = Conv(r{n}, w_e{n}) "
            f"h{n} = HardSigmoid(e{n}) m{n} = Mul({last}, h{n}) p{n} = Conv(m{n}, w_p{n}) a{n} = Relu(p{n})"
        )
        last = f"a{n}"
    shape = f"float[1, {channels}, 8, 8]"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({shape} x) => ({shape} {last}) {{ {" ".join(lines)} }}'
    )
    for node in model.graph.node:
        node.name = node.output[0]
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return model


def measure_gates(channels: int, squeezed: int) -> dict[str, float]:
    """Least microseconds of the float model and of the two files."""
    names = [f"{name}{n}" for n in range(_GATES_OF_A_NETWORK) for name in "se"]
    forms = {"integers": [], "rows": names}
    return _measure(build_gates(channels, squeezed), (4, channels, 8, 8), forms)


def measure(shape: Shape) -> dict[str, float]:
    """Least microseconds of the float model and of the four files."""
    depthwise = [f"depthwise{n}" for n in range(shape.blocks)]
    forms = {
        "integers": [],
        "first": ["first"],
        "depthwise": depthwise,
        "both": ["first", *depthwise],
    }
    size = (4, shape.before, shape.side, shape.side * shape.aspect)
    return _measure(build_network(shape), size, forms)


def _measure(
    model: ModelProto, size: tuple[int, ...], forms: dict[str, list[str]]
) -> dict[str, float]:
    samples = {"x": np.random.default_rng(1).standard_normal(size).astype(np.float32)}
    runners = {"float": compile_in_openvino_of(model)}
    for name, skip in forms.items():
        made = ptq.quantize(
            model,
            samples,
            eval_data=samples,
            target="openvino",
            effort="fast",
            skip=skip,
            threads=1,
            force=True,
        )
        runners[name] = compile_in_openvino_of(made.model)
    times = measure_times(runners, {"x": samples["x"][:1]})
    return {name: round(1e3 * row["least_ms"], 1) for name, row in times.items()}


def fit_first(rows: list[dict[str, Any]]) -> list[float]:
    """Nanoseconds for each call, input element and multiplication, by least squares of relative times."""
    gains = np.array([1e3 * (row["integers"] - row["first"]) for row in rows])
    terms = np.array([[1.0, row["first_input"], -row["first_products"]] for row in rows])
    whole = np.array([1e3 * row["integers"] for row in rows])
    found = np.linalg.lstsq(terms / whole[:, None], gains / whole, rcond=None)[0]
    return [float(f"{value:.3g}") for value in found]


def main() -> None:
    """Measure all networks and fit the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, help="a file to which a line of JSON is added for each network"
    )
    options = parser.parse_args()
    all_integers = replace(
        targets.TARGETS["openvino"], leaves_layers_float=False, float_padded_depthwise=False
    )
    rows = []
    with mock.patch.dict(targets.TARGETS, {"openvino": all_integers}):  # type: ignore[arg-type] # a dict in fact
        for channels, squeezed in GATES:
            print(
                json.dumps({"gates": [channels, squeezed], **measure_gates(channels, squeezed)}),
                flush=True,
            )
        for shape in SHAPES:
            sizes = {"first_input": shape.first_input, "first_products": shape.first_products}
            rows.append({"commit": read_commit(), **asdict(shape), **sizes, **measure(shape)})
            print(json.dumps(rows[-1]), flush=True)
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print("first_call, first_input, first_product:", fit_first(rows))


if __name__ == "__main__":
    main()
