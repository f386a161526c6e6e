"""Networks of convolutions, matrices, pools and movements that a quantizer stumbles over, by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from networks import network, normal
from onnx import TensorProto
from parts import CONV, ROW, SAME, SEQUENCE, WB, B, V, W, convolved

LAYERS: Mapping[str, onnx.ModelProto] = {
    # convolutions
    "conv without bias": network("y = Conv(x, w)", w=W),
    "conv 1-D": network(
        "c = Conv(x, w, b)\nr = Relu(c)\ny = Conv(r, v)",
        SEQUENCE,
        w=W[..., 0],
        b=B,
        v=V[..., 0],
    ),
    "conv 1-D and rank 2": network(
        "c = Conv(x, w, b)\nk = Mul(c, s)\ng = GlobalAveragePool(k)\nf = Flatten(g)\n"
        "y = Gemm(f, m, b)",
        SEQUENCE,
        w=W[..., 0],
        b=B,
        s=normal(8, 1),
        m=normal(8, 8),
    ),
    "depthwise": convolved("y = Conv<pads=[1,1,1,1],group=8>(c, d)", d=normal(8, 1, 3, 3)),
    "depthwise multiplied": convolved("y = Conv<group=8>(c, d)", d=normal(16, 1, 3, 3)),
    "grouped": convolved("y = Conv<group=2>(c, d)", d=normal(6, 4, 3, 3)),
    "dilated": convolved("y = Conv<dilations=[2,2]>(c, v)", v=V),
    "asymmetric pads": convolved("y = Conv<pads=[0,1,2,1],strides=[2,2]>(c, v)", v=V),
    "auto pad": convolved('y = Conv<auto_pad="SAME_UPPER",strides=[2,2]>(c, v)', v=V),
    "conv transpose": convolved(
        "r = Relu(c)\ny = ConvTranspose<strides=[2,2]>(r, v, b)", v=normal(8, 8, 2, 2, scale=0.2)
    ),
    "conv transpose grouped": convolved(
        "t = ConvTranspose<strides=[2,2],group=2>(c, v, b)\ny = Relu(t)",
        v=normal(8, 4, 2, 2, scale=0.2),
    ),
    "conv of a computed weight": network(
        "a = Relu(k)\ny = Conv(x, a)", {"x": (1, 3, 8, 8), "k": (8, 3, 3, 3)}
    ),
    # matrices
    "gemm": network("y = Gemm(x, m, k)", ROW, m=normal(16, 8), k=normal(8)),
    "gemm transB": network("y = Gemm<transB=1>(x, m, k)", ROW, m=normal(8, 16), k=normal(8)),
    "gemm without C": network("y = Gemm(x, m)", ROW, m=normal(16, 8)),
    "gemm alpha": network("y = Gemm<alpha=0.5>(x, m, k)", ROW, m=normal(16, 8), k=normal(8)),
    "gemm beta": network("y = Gemm<beta=0.5>(x, m, k)", ROW, m=normal(16, 8), k=normal(8)),
    "gemm transA": network(
        "y = Gemm<transA=1>(x, m, k)", {"x": (16, 2)}, m=normal(16, 8), k=normal(8)
    ),
    "gemm C of rank 2": network("y = Gemm(x, m, k)", ROW, m=normal(16, 8), k=normal(1, 8)),
    "gemm scalar C": network("y = Gemm(x, m, k)", ROW, m=normal(16, 8), k=np.float32(0.5)),
    "gemm full C": network("y = Gemm(x, m, k)", ROW, m=normal(16, 8), k=normal(2, 8)),
    "gemm column C": network("y = Gemm(x, m, k)", {"x": (8, 16)}, m=normal(16, 8), k=normal(8, 1)),
    "gemm of two activations": network(
        "a = Relu(x)\nb = Relu(z)\ny = Gemm(a, b)", {"x": (4, 8), "z": (8, 6)}
    ),
    "gemm of two activations and C": network(
        "a = Relu(x)\nb = Relu(z)\ny = Gemm(a, b, k)", {"x": (4, 8), "z": (8, 6)}, k=normal(6)
    ),
    "gemm twice": network(
        "h = Gemm(x, m, k)\nr = Relu(h)\ny = Gemm(r, n)",
        ROW,
        m=normal(16, 8),
        k=normal(8),
        n=normal(8, 4),
    ),
    "matmul": network("y = MatMul(x, m)", ROW, m=normal(16, 8)),
    "matmul of rank 3": network("y = MatMul(x, m)", {"x": (2, 5, 16)}, m=normal(16, 8)),
    "matmul by rank 3": network("y = MatMul(x, m)", {"x": (2, 5, 16)}, m=normal(2, 16, 8)),
    "matmul add": network(
        "h = MatMul(x, m)\ny = Add(h, k)", {"x": (2, 5, 16)}, m=normal(16, 8), k=normal(8)
    ),
    "matmul by a vector": network("y = MatMul(x, m)", {"x": (2, 5, 16)}, m=normal(16)),
    "matmul of a constant": network("y = MatMul(m, x)", {"x": (16, 5)}, m=normal(8, 16)),
    "attention": network(
        "q = MatMul(x, a)\nk = MatMul(x, b)\nv = MatMul(x, c)\n"
        "t = Transpose<perm=[0,2,1]>(k)\ns = MatMul(q, t)\np = Softmax<axis=-1>(s)\ny = MatMul(p, v)",
        {"x": (2, 5, 16)},
        a=normal(16, 8, scale=0.2),
        b=normal(16, 8, scale=0.2, seed=1),
        c=normal(16, 8, scale=0.2, seed=2),
    ),
    "shared weight": convolved(f"d = Conv{SAME}(c, v, b)\ny = Conv{SAME}(d, v, b)", v=V),
    "shared weight and reader": convolved(
        "m = Add(c, k)\ny = Conv(m, v)\n", k=V[:1, :, :1, :1], v=V
    ),
    "weight also a plain constant": network(
        "c = Conv(x, w)\nr = ReduceMax<keepdims=0>(w)\ny = Add(c, r)", w=W
    ),
    # pools and movers
    "max pool": convolved("y = MaxPool<kernel_shape=[2,2],strides=[2,2]>(c)"),
    "max pool ceil": convolved("y = MaxPool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(c)"),
    "max pool with indices": convolved("y, i = MaxPool<kernel_shape=[2,2]>(c)"),
    "max pool of the input": network("p = MaxPool<kernel_shape=[2,2]>(x)\ny = Conv(p, w)", w=W),
    "average pool": convolved("y = AveragePool<kernel_shape=[2,2],strides=[2,2]>(c)"),
    "average pool padded": convolved(
        "y = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1],count_include_pad=1>(c)"
    ),
    "average pool ceil": convolved(
        "y = AveragePool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(c)"
    ),
    "global average pool": convolved("y = GlobalAveragePool(c)"),
    "global max pool": convolved("y = GlobalMaxPool(c)"),
    "mean over the image": convolved("y = ReduceMean<axes=[2,3],keepdims=0>(c)"),
    "mean over channels": convolved("m = ReduceMean<axes=[1]>(c)\ny = Add(m, c)"),
    "softmax over channels": convolved("y = Softmax<axis=1>(c)"),
    "softmax of rows": network("h = Gemm(x, m)\ny = Softmax(h)", ROW, m=normal(16, 40)),
    "transpose": convolved("y = Transpose<perm=[0,2,3,1]>(c)"),
    "transpose and back": convolved(
        "t = Transpose<perm=[0,2,3,1]>(c)\nm = Mul(t, k)\nu = Transpose<perm=[0,3,1,2]>(m)\n"
        "y = Conv(u, v)",
        k=normal(8),
        v=V,
    ),
    "flatten": convolved("f = Flatten(c)\ny = Gemm(f, m)", m=normal(512, 4, scale=0.1)),
    "reshape": convolved("y = Reshape(c, s)", s=np.array([0, 2, -1], np.int64)),
    "reshape at run time": network(
        CONV + "t = Concat<axis=0>(s, e)\ny = Reshape(c, t)",
        {"x": (1, 3, 8, 8), "s": (1,)},
        types={"s": TensorProto.INT64},
        e=np.array([-1], np.int64),
        **WB,
    ),
    "reshape by shape": network(
        CONV + "s = Shape(c)\nb0 = Gather(s, i)\nu = Unsqueeze(b0, z)\nt = Concat<axis=0>(u, e)\n"
        "f = Reshape(c, t)\ny = Gemm(f, m)",
        {"x": ("n", 3, 8, 8)},
        i=np.int64(0),
        z=np.array([0], np.int64),
        e=np.array([512], np.int64),
        m=normal(512, 4, scale=0.1),
        **WB,
    ),
    "squeeze": convolved(
        "g = GlobalAveragePool(c)\ns = Squeeze(g, a)\ny = Gemm(s, m)",
        a=np.array([2, 3], np.int64),
        m=normal(8, 4),
    ),
    "unsqueeze": convolved("y = Unsqueeze(c, a)", a=np.array([0], np.int64)),
    "gather": convolved("y = Gather<axis=1>(c, i)", i=np.array([0, 5], np.int64)),
    "slice": convolved(
        "y = Slice(c, f, t, a)",
        f=np.array([1], np.int64),
        t=np.array([5], np.int64),
        a=np.array([1], np.int64),
    ),
    "pad": convolved("y = Pad(c, p)", p=np.array([0, 1, 2, 0, 0, 0, 1, 3], np.int64)),
    "pad with a value": convolved(
        "y = Pad(c, p, k)", p=np.array([0, 0, 2, 0, 0, 0, 1, 3], np.int64), k=np.float32(-0.5)
    ),
    "pad by reflection": convolved(
        'y = Pad<mode="reflect">(c, p)', p=np.array([0, 0, 2, 0, 0, 0, 1, 3], np.int64)
    ),
    "pad of the input": network(
        "p = Pad(x, q, k)\ny = Conv(p, w)",
        q=np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
        k=np.float32(1.5),
        w=W,
    ),
    "identity": convolved("y = Identity(c)"),
    "split": convolved("a, d = Split<axis=1>(c)\ny = Add(a, d)"),
    "resize": convolved('y = Resize<mode="nearest">(c, , s)', s=np.array([1, 1, 2, 2], np.float32)),
}
