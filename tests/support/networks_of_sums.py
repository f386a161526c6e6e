"""Networks of activations, sums and concatenations that a quantizer stumbles over, by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from networks import build_network, gaussian_array
from parts import CONV, SAME, WB, V, W, conv_network

SUM_CASES: Mapping[str, onnx.ModelProto] = {
    # activations
    "relu": conv_network("y = Relu(c)"),
    "relu6": conv_network("y = Clip(c, lo, hi)", lo=np.float32(0), hi=np.float32(6)),
    "clip -1 1": conv_network("y = Clip(c, lo, hi)", lo=np.float32(-1), hi=np.float32(1)),
    "clip 1 5": conv_network("y = Clip(c, lo, hi)", lo=np.float32(1), hi=np.float32(5)),
    "clip max only": conv_network("y = Clip(c, , hi)", hi=np.float32(0.5)),
    "clip min only": conv_network("y = Clip(c, lo)", lo=np.float32(-0.25)),
    "clip without bounds": conv_network("y = Clip(c)"),
    "clip bounds from an input": build_network(
        CONV + "y = Clip(c, lo)", {"x": (1, 3, 8, 8), "lo": ()}, **WB
    ),
    "relu with a second reader": conv_network("r = Relu(c)\ny = Add(r, c)"),
    "relu of an output": build_network(CONV + "y = Relu(c)", None, ["y", "c"], **WB),
    "relu output and inner": build_network(
        CONV + f"r = Relu(c)\ny = Conv{SAME}(r, v)", None, ["y", "r"], v=V, **WB
    ),
    "add relu": conv_network(f"d = Conv{SAME}(x, w)\na = Add(c, d)\ny = Relu(a)"),
    "two relus": conv_network("r = Relu(c)\ny = Relu(r)"),
    "relu of the input": build_network("r = Relu(x)\ny = Conv(r, w)", w=W),
    "relu of a pool": conv_network("p = MaxPool<kernel_shape=[2,2]>(c)\ny = Relu(p)"),
    "leaky relu": conv_network("y = LeakyRelu<alpha=0.1>(c)"),
    "sigmoid": conv_network("y = Sigmoid(c)"),
    "swish": conv_network("s = Sigmoid(c)\ny = Mul(c, s)"),
    "hard swish": conv_network(
        "a = Add(c, three)\nk = Clip(a, lo, hi)\nd = Div(k, hi)\ny = Mul(c, d)",
        three=np.float32(3),
        lo=np.float32(0),
        hi=np.float32(6),
    ),
    "hard sigmoid": conv_network(f"h = HardSigmoid(c)\ny = Conv{SAME}(h, v)", v=V),
    "tanh between": conv_network(f"t = Tanh(c)\ny = Conv{SAME}(t, v)", v=V),
    "erf between": conv_network(f"t = Erf(c)\nm = Mul(t, c)\ny = Conv{SAME}(m, v)", v=V),
    # sums and products
    "residual": conv_network(f"r = Relu(c)\nd = Conv{SAME}(r, v)\na = Add(d, r)\ny = Relu(a)", v=V),
    "add itself": conv_network("y = Add(c, c)"),
    "mul itself": conv_network("y = Mul(c, c)"),
    "sub": conv_network("r = Relu(c)\ny = Sub(c, r)"),
    "div between": conv_network(f"d = Div(c, k)\ny = Conv{SAME}(d, v)", k=np.float32(3), v=V),
    "add per channel": conv_network("y = Add(c, k)", k=gaussian_array(8, 1, 1)),
    "constant first": conv_network("y = Mul(k, c)", k=gaussian_array(8, 1, 1)),
    "scalar constant": conv_network("y = Add(c, k)", k=np.float32(0.7)),
    "constant of one element": conv_network("y = Mul(c, k)", k=np.float32([0.7])),
    "constant along the width": conv_network("y = Mul(c, k)", k=gaussian_array(8)),
    "constant of rank 4": conv_network("y = Mul(c, k)", k=gaussian_array(1, 8, 1, 8)),
    "constant of rank 5": conv_network("y = Mul(c, k)", k=gaussian_array(1, 1, 8, 1, 1)),
    "zero constant": conv_network("y = Add(c, k)", k=np.zeros((8, 1, 1), np.float32)),
    "squeeze and excite": conv_network(
        "g = GlobalAveragePool(c)\nd = Conv(g, v)\ns = Sigmoid(d)\ny = Mul(c, s)",
        v=gaussian_array(8, 8, 1, 1),
    ),
    "row times image": conv_network(
        "g = GlobalAveragePool(c)\nf = Flatten(g)\nd = Gemm(f, m)\ny = Mul(c, d)",
        m=gaussian_array(8, 8),
    ),
    # concat
    "concat": conv_network(f"d = Conv{SAME}(x, w)\ny = Concat<axis=1>(c, d)"),
    "concat of rows": conv_network(f"d = Conv{SAME}(x, w)\ny = Concat<axis=2>(c, d)"),
    "concat of columns": conv_network(f"d = Conv{SAME}(x, w)\ny = Concat<axis=-1>(c, d)"),
    "concat of samples": conv_network(f"d = Conv{SAME}(x, w)\ny = Concat<axis=0>(c, d)"),
    "concat itself": conv_network("y = Concat<axis=1>(c, c)"),
    "concat with the input": conv_network("y = Concat<axis=1>(c, x)"),
    "concat with a constant": conv_network(
        "y = Concat<axis=1>(c, k)", k=gaussian_array(1, 2, 8, 8)
    ),
    "concat with a sigmoid": conv_network("s = Sigmoid(c)\nt = Relu(x)\ny = Concat<axis=1>(s, t)"),
    "dense block": conv_network(
        f"d = Conv{SAME}(c, v)\nj = Concat<axis=1>(c, d)\ne = Conv{SAME}(j, u)\n"
        "k = Concat<axis=1>(j, e)\ny = MaxPool<kernel_shape=[2,2]>(k)",
        v=V,
        u=gaussian_array(8, 16, 3, 3, scale=0.1),
    ),
    "concat of bounded and not": conv_network(
        f"r = Relu(c)\nd = Conv{SAME}(x, w)\ny = Concat<axis=1>(r, d)"
    ),
    "concat of one kind": conv_network(
        f"r = Relu(c)\nd = Conv{SAME}(x, w)\ns = Relu(d)\np = MaxPool<kernel_shape=[1,1]>(s)\n"
        "y = Concat<axis=1>(r, p)"
    ),
    "concat of one value": conv_network(
        "m = MaxPool<kernel_shape=[1,1]>(c)\ny = Concat<axis=1>(m, c)"
    ),
    "concat read twice": conv_network(
        f"d = Conv{SAME}(x, w)\ne = Relu(d)\nj = Concat<axis=1>(c, e)\nk = Conv(j, v)\n"
        "l = MaxPool<kernel_shape=[3,3]>(e)\ny = Concat<axis=1>(k, l)",
        v=gaussian_array(8, 16, 3, 3, scale=0.1),
    ),
}
