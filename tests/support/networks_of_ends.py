"""Networks with unusual inputs, outputs, sub-graphs and numbers, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from networks import build_network, gaussian_array
from onnx import TensorProto, helper
from parts import CONV, SAME, WB, B, V, W, conv_network


def _if_capturing(
    captured: str, before: str = "", read: str = "c", extra: Mapping[str, Any] | None = None
) -> onnx.ModelProto:
    """An If whose branches read a tensor from outside that is quantized for others."""

    def branch(name: str, op: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        node = helper.make_node(op, [captured], [f"{name}_y"], name=f"{name}_node")
        return helper.make_graph([node], name, [], [output])

    model = build_network(
        CONV + before + f"d = Conv{SAME}({read}, v)\n",
        {"x": (1, 3, 8, 8), **(extra or {})},
        ["d"],
        v=V,
        **WB,
    )
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    graph.node.append(
        helper.make_node(
            "If",
            ["flag"],
            ["chosen"],
            name="choice",
            then_branch=branch("then", "Relu"),
            else_branch=branch("else", "Abs"),
        )
    )
    graph.node.append(helper.make_node("Add", ["chosen", "z" if extra else "d"], ["y"], name="sum"))
    graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 8, 8)))
    return model


EDGE_CASES: Mapping[str, onnx.ModelProto] = {
    # outputs and inputs
    "conv is an output and read": build_network(CONV + "y = Relu(c)", None, ["c", "y"], **WB),
    "mover is an output and read": build_network(
        CONV + f"m = MaxPool<kernel_shape=[2,2]>(c)\ny = Conv{SAME}(m, v)",
        None,
        ["m", "y"],
        v=V,
        **WB,
    ),
    "mover of an output": build_network(
        CONV + "y = Transpose<perm=[0,2,3,1]>(c)", None, ["c", "y"], **WB
    ),
    "two movers are outputs": build_network(
        CONV + "y = Flatten(c)\nz = Transpose<perm=[0,2,3,1]>(c)", None, ["z", "y"], **WB
    ),
    "input passes through": build_network(
        CONV + "y = Relu(c)\nz = Identity(x)", None, ["y", "z"], **WB
    ),
    "input moved to output": build_network(
        CONV + "y = Relu(c)\nz = Flatten(x)", None, ["y", "z"], **WB
    ),
    "two inputs": build_network(
        CONV + f"d = Conv{SAME}(z, w)\ny = Add(c, d)", {"x": (1, 3, 8, 8), "z": (1, 3, 8, 8)}, **WB
    ),
    "gather by an input": build_network(
        "e = Gather(table, i)\nh = MatMul(e, m)\ny = Relu(h)",
        {"i": (1, 5)},
        types={"i": TensorProto.INT64},
        table=gaussian_array(2, 16),
        m=gaussian_array(16, 8),
    ),
    "unused input": build_network(CONV + "y = Relu(c)", {"x": (1, 3, 8, 8), "z": (1,)}, **WB),
    "if capturing": _if_capturing("c"),
    "if capturing a float": _if_capturing("g", "g = Neg(c)\n", "g"),
    "if capturing the input": _if_capturing("z", "", "c", extra={"z": (1, 8, 8, 8)}),
    "nothing to quantize": build_network("y = Neg(x)"),
    "movers alone": build_network("m = MaxPool<kernel_shape=[2,2]>(x)\ny = Cos(m)"),
    "name taken": build_network(
        "x_quantized = Conv(x, w)\nx_scale = Relu(x_quantized)\ny = Conv(x_scale, v)", w=W, v=V
    ),
    # numbers
    "dead channel": conv_network("y = Relu(c)", w=np.concatenate([W[:7], 0 * W[:1]])),
    "dead channel, no bias": build_network("y = Conv(x, w)", w=np.concatenate([W[:7], 0 * W[:1]])),
    "tiny weights, huge bias": conv_network("y = Relu(c)", w=W * 1e-9, b=B * 1e3),
    "one tiny channel": conv_network(
        "y = Relu(c)", w=W * np.float32([1] * 7 + [1e-9]).reshape(8, 1, 1, 1)
    ),
    "zero network": conv_network("y = Relu(c)", w=W * 0, b=B * 0),
    "batch of three": build_network(
        CONV + "g = GlobalAveragePool(c)\nf = Flatten(g)\ny = Gemm(f, m)",
        {"x": (3, 3, 8, 8)},
        m=gaussian_array(8, 4),
        **WB,
    ),
    "zero weights, bias": conv_network("y = Relu(c)", w=W * 0, b=np.abs(B)),
    "batch norm": conv_network(
        "y = BatchNormalization(c, s, b, mean, var)",
        s=gaussian_array(8),
        mean=gaussian_array(8),
        var=np.abs(gaussian_array(8)),
    ),
}
