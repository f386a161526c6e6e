"""Networks of activations, sums and concatenations that a quantizer stumbles over, by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from networks import network, normal
from parts import CONV, SAME, WB, V, W, convolved

SUMS: Mapping[str, onnx.ModelProto] = {
    # activations
    "relu": convolved("y = Relu(c)"),
    "relu6": convolved("y = Clip(c, lo, hi)", lo=np.float32(0), hi=np.float32(6)),
    "clip -1 1": convolved("y = Clip(c, lo, hi)", lo=np.float32(-1), hi=np.float32(1)),
    "clip 1 5": convolved("y = Clip(c, lo, hi)", lo=np.float32(1), hi=np.float32(5)),
    "clip max only": convolved("y = Clip(c, , hi)", hi=np.float32(0.5)),
    "clip min only": convolved("y = Clip(c, lo)", lo=np.float32(-0.25)),
    "clip without bounds": convolved("y = Clip(c)"),
    "clip bounds from an input": network(
        CONV + "y = Clip(c, lo)", {"x": (1, 3, 8, 8), "lo": ()}, **WB
    ),
    "relu with a second reader": convolved("r = Relu(c)\ny = Add(r, c)"),
    "relu of an output": network(CONV + "y = Relu(c)", None, ["y", "c"], **WB),
    "relu output and inner": network(
        CONV + f"r = Relu(c)\ny = Conv{SAME}(r, v)", None, ["y", "r"], v=V, **WB
    ),
    "add relu": convolved(f"d = Conv{SAME}(x, w)\na = Add(c, d)\ny = Relu(a)"),
    "two relus": convolved("r = Relu(c)\ny = Relu(r)"),
    "relu of the input": network("r = Relu(x)\ny = Conv(r, w)", w=W),
    "relu of a pool": convolved("p = MaxPool<kernel_shape=[2,2]>(c)\ny = Relu(p)"),
    "leaky relu": convolved("y = LeakyRelu<alpha=0.1>(c)"),
    "sigmoid": convolved("y = Sigmoid(c)"),
    "swish": convolved("s = Sigmoid(c)\ny = Mul(c, s)"),
    "hard swish": convolved(
        "a = Add(c, three)\nk = Clip(a, lo, hi)\nd = Div(k, hi)\ny = Mul(c, d)",
        three=np.float32(3),
        lo=np.float32(0),
        hi=np.float32(6),
    ),
    "hard sigmoid": convolved(f"h = HardSigmoid(c)\ny = Conv{SAME}(h, v)", v=V),
    "tanh between": convolved(f"t = Tanh(c)\ny = Conv{SAME}(t, v)", v=V),
    "erf between": convolved(f"t = Erf(c)\nm = Mul(t, c)\ny = Conv{SAME}(m, v)", v=V),
    # sums and products
    "residual": convolved(f"r = Relu(c)\nd = Conv{SAME}(r, v)\na = Add(d, r)\ny = Relu(a)", v=V),
    "add itself": convolved("y = Add(c, c)"),
    "mul itself": convolved("y = Mul(c, c)"),
    "sub": convolved("r = Relu(c)\ny = Sub(c, r)"),
    "div between": convolved(f"d = Div(c, k)\ny = Conv{SAME}(d, v)", k=np.float32(3), v=V),
    "add per channel": convolved("y = Add(c, k)", k=normal(8, 1, 1)),
    "constant first": convolved("y = Mul(k, c)", k=normal(8, 1, 1)),
    "scalar constant": convolved("y = Add(c, k)", k=np.float32(0.7)),
    "constant of one element": convolved("y = Mul(c, k)", k=np.float32([0.7])),
    "constant along the width": convolved("y = Mul(c, k)", k=normal(8)),
    "constant of rank 4": convolved("y = Mul(c, k)", k=normal(1, 8, 1, 8)),
    "constant of rank 5": convolved("y = Mul(c, k)", k=normal(1, 1, 8, 1, 1)),
    "zero constant": convolved("y = Add(c, k)", k=np.zeros((8, 1, 1), np.float32)),
    "squeeze and excite": convolved(
        "g = GlobalAveragePool(c)\nd = Conv(g, v)\ns = Sigmoid(d)\ny = Mul(c, s)",
        v=normal(8, 8, 1, 1),
    ),
    "row times image": convolved(
        "g = GlobalAveragePool(c)\nf = Flatten(g)\nd = Gemm(f, m)\ny = Mul(c, d)", m=normal(8, 8)
    ),
    # concat
    "concat": convolved(f"d = Conv{SAME}(x, w)\ny = Concat<axis=1>(c, d)"),
    "concat of rows": convolved(f"d = Conv{SAME}(x, w)\ny = Concat<axis=2>(c, d)"),
    "concat of columns": convolved(f"d = Conv{SAME}(x, w)\ny = Concat<axis=-1>(c, d)"),
    "concat of samples": convolved(f"d = Conv{SAME}(x, w)\ny = Concat<axis=0>(c, d)"),
    "concat itself": convolved("y = Concat<axis=1>(c, c)"),
    "concat with the input": convolved("y = Concat<axis=1>(c, x)"),
    "concat with a constant": convolved("y = Concat<axis=1>(c, k)", k=normal(1, 2, 8, 8)),
    "concat with a sigmoid": convolved("s = Sigmoid(c)\nt = Relu(x)\ny = Concat<axis=1>(s, t)"),
    "dense block": convolved(
        f"d = Conv{SAME}(c, v)\nj = Concat<axis=1>(c, d)\ne = Conv{SAME}(j, u)\n"
        "k = Concat<axis=1>(j, e)\ny = MaxPool<kernel_shape=[2,2]>(k)",
        v=V,
        u=normal(8, 16, 3, 3, scale=0.1),
    ),
    "concat of bounded and not": convolved(
        f"r = Relu(c)\nd = Conv{SAME}(x, w)\ny = Concat<axis=1>(r, d)"
    ),
    "concat of one kind": convolved(
        f"r = Relu(c)\nd = Conv{SAME}(x, w)\ns = Relu(d)\np = MaxPool<kernel_shape=[1,1]>(s)\n"
        "y = Concat<axis=1>(r, p)"
    ),
    "concat of one value": convolved(
        "m = MaxPool<kernel_shape=[1,1]>(c)\ny = Concat<axis=1>(m, c)"
    ),
    "concat read twice": convolved(
        f"d = Conv{SAME}(x, w)\ne = Relu(d)\nj = Concat<axis=1>(c, e)\nk = Conv(j, v)\n"
        "l = MaxPool<kernel_shape=[3,3]>(e)\ny = Concat<axis=1>(k, l)",
        v=normal(8, 16, 3, 3, scale=0.1),
    ),
}
