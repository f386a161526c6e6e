"""Networks that nobody thought of: rows of the table joined at random, with several readers and skips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from networks import build_network, gaussian_array

Draw = Callable[[Any], Any]
Shape = tuple[int, ...]

MAX_NODES = 9  # nodes drawn; some bring a second one

BOUNDED_SETTINGS = settings(
    derandomize=True,
    max_examples=25,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass
class DrawnNetwork:
    """A network while it is drawn: lines of ONNX's text form, shapes of tensors, weights."""

    draw: Draw
    lines: list[str] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def add_node(self, op: str, inputs: list[str], shape: Shape, attributes: str = "") -> str:
        name = f"t{len(self.lines)}"
        said = f"<{attributes}>" if attributes else ""
        self.lines.append(f"{name} = {op}{said}({', '.join(inputs)})")
        self.shapes[name] = shape
        self.read.update(i for i in inputs if i in self.shapes)
        return name

    def add_weight(self, *shape: int, scale: float = 0.3) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = gaussian_array(*shape, seed=self.draw(st.integers(0, 9)), scale=scale)
        return name

    def add_integers(self, *values: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.array(values, np.int64)
        return name

    def pick_tensor(self, rank: int | None = None) -> str:
        fit = [n for n, s in self.shapes.items() if rank is None or len(s) == rank]
        return self.draw(st.sampled_from(fit))

    def pick_operand(self, shape: Shape) -> str:
        """A tensor of that shape, or a constant that is added to or multiplied with it."""
        fit = [n for n, s in self.shapes.items() if s == shape]
        choice = self.draw(st.sampled_from([*fit, "constant"]))
        if choice != "constant":
            return choice
        ones = [d if self.draw(st.booleans()) else 1 for d in shape]
        return self.add_weight(*ones, scale=1.0)


def _conv(d: DrawnNetwork) -> None:
    x = d.pick_tensor(4)
    n, channels, height, width = d.shapes[x]
    k = d.draw(st.sampled_from([1, 3])) if min(height, width) >= 3 else 1
    stride = d.draw(st.sampled_from([1, 2]))
    pad = d.draw(st.sampled_from([0, k // 2]))
    group = channels if d.draw(st.booleans()) else 1
    out = channels if group > 1 else d.draw(st.integers(1, 6))
    inputs = [x, d.add_weight(out, channels // group, k, k)]
    if d.draw(st.booleans()):
        inputs.append(d.add_weight(out))
    size = [(s + 2 * pad - k) // stride + 1 for s in (height, width)]
    said = f"pads=[{pad},{pad},{pad},{pad}], strides=[{stride},{stride}], group={group}"
    d.add_node("Conv", inputs, (n, out, *size), said)


def _pool(d: DrawnNetwork) -> None:
    x = d.pick_tensor(4)
    n, channels, height, width = d.shapes[x]
    if min(height, width) < 2:
        return
    op = d.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    size = (n, channels, height // 2, width // 2)
    d.add_node(op, [x], size, "kernel_shape=[2,2], strides=[2,2]")


def _global_pool(d: DrawnNetwork) -> None:
    x = d.pick_tensor(4)
    d.add_node("GlobalAveragePool", [x], (*d.shapes[x][:2], 1, 1))


def _linear(d: DrawnNetwork) -> None:
    x = d.pick_tensor(2)
    rows, depth = d.shapes[x]
    out = d.draw(st.integers(1, 8))
    if d.draw(st.booleans()):
        d.add_node("MatMul", [x, d.add_weight(depth, out)], (rows, out))
        return
    inputs = [x, d.add_weight(out, depth)]
    if d.draw(st.booleans()):
        inputs.append(d.add_weight(out))
    d.add_node("Gemm", inputs, (rows, out), "transB=1")


def _binary(d: DrawnNetwork) -> None:
    x = d.pick_tensor()
    op = d.draw(st.sampled_from(["Add", "Add", "Mul"]))
    d.add_node(op, [x, d.pick_operand(d.shapes[x])], d.shapes[x])


def _gate(d: DrawnNetwork) -> None:
    """A tensor times one value a channel, as squeeze-and-excitation has it."""
    x = d.pick_tensor(4)
    mean = d.add_node("GlobalAveragePool", [x], (*d.shapes[x][:2], 1, 1))
    gate = d.add_node("Sigmoid", [mean], d.shapes[mean])
    d.add_node("Mul", [x, gate], d.shapes[x])


def _activation(d: DrawnNetwork) -> None:
    x = d.pick_tensor()
    said = d.draw(
        st.sampled_from(["Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Clip"])
    )
    inputs = [x]
    if said == "Clip":
        lo, hi = f"w{len(d.weights)}", f"w{len(d.weights) + 1}"
        d.weights[lo], d.weights[hi] = np.float32(0), np.float32(6)
        inputs += [lo, hi]
    d.add_node(said, inputs, d.shapes[x], "alpha=0.2" if said == "LeakyRelu" else "")


def _softmax(d: DrawnNetwork) -> None:
    x = d.pick_tensor()
    d.add_node("Softmax", [x], d.shapes[x], "axis=-1")


def _concat(d: DrawnNetwork) -> None:
    x = d.pick_tensor()
    shape = d.shapes[x]
    rest = [
        n
        for n, s in d.shapes.items()
        if len(s) == len(shape) and (s[0], *s[2:]) == (shape[0], *shape[2:])
    ]
    others = d.draw(st.lists(st.sampled_from(rest), min_size=1, max_size=2))
    channels = sum(d.shapes[n][1] for n in [x, *others])
    if channels < 40:
        d.add_node("Concat", [x, *others], (shape[0], channels, *shape[2:]), "axis=1")


def _data_movement(d: DrawnNetwork) -> None:
    x = d.pick_tensor(4)
    n, channels, height, width = d.shapes[x]
    match d.draw(st.sampled_from(["Transpose", "Pad", "Slice", "Reshape", "Identity"])):
        case "Transpose":
            d.add_node("Transpose", [x], (n, channels, width, height), "perm=[0,1,3,2]")
        case "Pad":
            pads = d.add_integers(0, 0, 1, 0, 0, 0, 0, 1)
            d.add_node("Pad", [x, pads], (n, channels, height + 1, width + 1))
        case "Slice" if height > 1:
            bounds = [d.add_integers(0), d.add_integers(height - 1), d.add_integers(2)]
            d.add_node("Slice", [x, *bounds], (n, channels, height - 1, width))
        case "Reshape":
            shape = (n, channels, width * height, 1)
            d.add_node("Reshape", [x, d.add_integers(*shape)], shape)
        case _:
            d.add_node("Identity", [x], d.shapes[x])


def _flatten(d: DrawnNetwork) -> None:
    x = d.pick_tensor(4)
    size = int(np.prod(d.shapes[x]))
    if size <= 400:
        flat = d.add_node("Flatten", [x], (1, size))
        d.add_node("Gemm", [flat, d.add_weight(5, size, scale=0.1)], (1, 5), "transB=1")


LAYER_MAKERS = (
    _conv,
    _conv,
    _conv,
    _binary,
    _binary,
    _activation,
    _activation,
    _pool,
    _global_pool,
)
LAYER_MAKERS += (_gate, _concat, _data_movement, _flatten, _softmax)


@st.composite
def network_strategy(draw: Draw) -> onnx.ModelProto:
    """A model of up to nine random steps after a convolution; all that nobody reads goes out."""
    d = DrawnNetwork(draw)
    d.shapes["x"] = (1, draw(st.integers(1, 3)), draw(st.integers(4, 8)), draw(st.integers(4, 8)))
    _conv(d)
    for _ in range(draw(st.integers(1, MAX_NODES))):
        step = draw(st.sampled_from(LAYER_MAKERS))
        if any(len(s) == 2 for s in d.shapes.values()) and draw(st.integers(0, 3)) == 0:
            step = _linear
        step(d)
    ends = [name for name in d.shapes if name not in d.read and name != "x"]
    if draw(st.booleans()) and len(d.shapes) > 2:  # one that is read inside as well
        ends = list(dict.fromkeys([*ends, draw(st.sampled_from([*d.shapes][1:]))]))
    return build_network("\n".join(d.lines), {"x": d.shapes["x"]}, ends, **d.weights)
