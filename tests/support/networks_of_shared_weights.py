"""Networks in which several nodes use one weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from networks import build_network, gaussian_array
from onnx import numpy_helper

import ptq

STEPS = 5
FEATURES, HIDDEN = 1024, 96


def unrolled_recurrent_network() -> onnx.ModelProto:
    """A recurrent layer over five steps, unrolled: all steps share two weights and two biases."""
    lines, state = [], "start"
    lines.append("start = Mul(x_0_part, zero)")
    lines.append(f"{', '.join(f'x_{t}' for t in range(STEPS))} = Split <axis = 1> (x)")
    lines.append("x_0_part = Slice(x_0, begin, end, last)")
    for t in range(STEPS):
        lines += [
            f"[node_in_{t}] i_{t} = Gemm <transB = 1> (x_{t}, w_in, b_in)",
            f"[node_state_{t}] s_{t} = Gemm <transB = 1> ({state}, w_state, b_state)",
            f"[sum_{t}] a_{t} = Add(i_{t}, s_{t})",
            f"[act_{t}] h_{t} = Sigmoid(a_{t})",
        ]
        state = f"h_{t}"
    lines.append(f"[head] y = Gemm <transB = 1> ({state}, w_out, b_out)")
    lines = [lines[1], lines[2], lines[0], *lines[3:]]
    return build_network(
        "\n".join(lines),
        {"x": ("n", STEPS * FEATURES)},
        w_in=gaussian_array(HIDDEN, FEATURES, seed=1, scale=2 / FEATURES**0.5),
        b_in=gaussian_array(HIDDEN, seed=2, scale=0.3),
        w_state=gaussian_array(HIDDEN, HIDDEN, seed=3, scale=2 / HIDDEN**0.5),
        b_state=gaussian_array(HIDDEN, seed=4, scale=0.3),
        w_out=gaussian_array(10, HIDDEN, seed=5, scale=0.3),
        b_out=gaussian_array(10, seed=6),
        zero=np.zeros((), np.float32),
        begin=np.array([0]),
        end=np.array([HIDDEN]),
        last=np.array([1]),
    )


def tied_layer_network(depth: int = 4, width: int = 160) -> onnx.ModelProto:
    """A residual network whose layers share two matrices, as a transformer with tied layers does."""
    lines, stream = [], "x"
    for layer in range(depth):
        lines += [
            f"[up_{layer}] u_{layer} = MatMul({stream}, w_up)",
            f"[up_bias_{layer}] ub_{layer} = Add(u_{layer}, b_up)",
            f"[relu_{layer}] r_{layer} = Relu(ub_{layer})",
            f"[down_{layer}] d_{layer} = MatMul(r_{layer}, w_down)",
            f"[down_bias_{layer}] db_{layer} = Add(d_{layer}, b_down)",
            f"[add_{layer}] s_{layer} = Add({stream}, db_{layer})",
        ]
        stream = f"s_{layer}"
    lines.append(f"[head] y = MatMul({stream}, w_out)")
    return build_network(
        "\n".join(lines),
        {"x": ("n", 6, width)},
        w_up=gaussian_array(width, 4 * width, seed=1, scale=1 / width**0.5),
        b_up=gaussian_array(4 * width, seed=2, scale=0.2),
        w_down=gaussian_array(4 * width, width, seed=3, scale=0.5 / width**0.5),
        b_down=gaussian_array(width, seed=4, scale=0.2),
        w_out=gaussian_array(width, 12, seed=5, scale=0.3),
    )


def random_samples(model: onnx.ModelProto, count: int, seed: int) -> dict[str, Any]:
    """Samples with channels of different size for the input ``x``."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim][1:]
    sizes = np.exp(gaussian_array(shape[-1], seed=9, scale=0.5))
    return {"x": gaussian_array(count, *shape, seed=seed) * sizes}


def quantized_weight_names(model: onnx.ModelProto) -> dict[str, str]:
    """By the name of each product, the initializer with the integers of its weight; its own name if it is float."""
    made = {output: node for node in model.graph.node for output in node.output}
    found = {}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            maker = made.get(node.input[1])
            found[node.name] = node.input[1] if maker is None else maker.input[0]
    return found


def initializer(model: onnx.ModelProto, name: str) -> Any:
    """The array of an initializer."""
    [tensor] = [t for t in model.graph.initializer if t.name == name]
    return numpy_helper.to_array(tensor)


def quantize_shared(model: onnx.ModelProto, **options: Any) -> ptq.Result:
    """The model quantized on 96 random samples and evaluated on 64 others."""
    return ptq.quantize(
        model,
        random_samples(model, 96, seed=20),
        eval_data=random_samples(model, 64, seed=21),
        threads=1,
        **options,
    )
