"""Networks of convolutions, matrices, pools and movements that a quantizer stumbles over, by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from networks import build_network, gaussian_array
from onnx import TensorProto
from parts import CONV, ROW, SAME, SEQUENCE, WB, B, V, W, conv_network

LAYER_CASES: Mapping[str, onnx.ModelProto] = {
    # convolutions
    "conv without bias": build_network("y = Conv(x, w)", w=W),
    "conv 1-D": build_network(
        "c = Conv(x, w, b)\nr = Relu(c)\ny = Conv(r, v)",
        SEQUENCE,
        w=W[..., 0],
        b=B,
        v=V[..., 0],
    ),
    "conv 1-D and rank 2": build_network(
        "c = Conv(x, w, b)\nk = Mul(c, s)\ng = GlobalAveragePool(k)\nf = Flatten(g)\n"
        "y = Gemm(f, m, b)",
        SEQUENCE,
        w=W[..., 0],
        b=B,
        s=gaussian_array(8, 1),
        m=gaussian_array(8, 8),
    ),
    "depthwise": conv_network(
        "y = Conv<pads=[1,1,1,1],group=8>(c, d)", d=gaussian_array(8, 1, 3, 3)
    ),
    "depthwise multiplied": conv_network("y = Conv<group=8>(c, d)", d=gaussian_array(16, 1, 3, 3)),
    "grouped": conv_network("y = Conv<group=2>(c, d)", d=gaussian_array(6, 4, 3, 3)),
    "dilated": conv_network("y = Conv<dilations=[2,2]>(c, v)", v=V),
    "asymmetric pads": conv_network("y = Conv<pads=[0,1,2,1],strides=[2,2]>(c, v)", v=V),
    "auto pad": conv_network('y = Conv<auto_pad="SAME_UPPER",strides=[2,2]>(c, v)', v=V),
    "conv transpose": conv_network(
        "r = Relu(c)\ny = ConvTranspose<strides=[2,2]>(r, v, b)",
        v=gaussian_array(8, 8, 2, 2, scale=0.2),
    ),
    "conv transpose grouped": conv_network(
        "t = ConvTranspose<strides=[2,2],group=2>(c, v, b)\ny = Relu(t)",
        v=gaussian_array(8, 4, 2, 2, scale=0.2),
    ),
    "conv of a computed weight": build_network(
        "a = Relu(k)\ny = Conv(x, a)", {"x": (1, 3, 8, 8), "k": (8, 3, 3, 3)}
    ),
    # matrices
    "gemm": build_network("y = Gemm(x, m, k)", ROW, m=gaussian_array(16, 8), k=gaussian_array(8)),
    "gemm transB": build_network(
        "y = Gemm<transB=1>(x, m, k)", ROW, m=gaussian_array(8, 16), k=gaussian_array(8)
    ),
    "gemm without C": build_network("y = Gemm(x, m)", ROW, m=gaussian_array(16, 8)),
    "gemm alpha": build_network(
        "y = Gemm<alpha=0.5>(x, m, k)", ROW, m=gaussian_array(16, 8), k=gaussian_array(8)
    ),
    "gemm beta": build_network(
        "y = Gemm<beta=0.5>(x, m, k)", ROW, m=gaussian_array(16, 8), k=gaussian_array(8)
    ),
    "gemm transA": build_network(
        "y = Gemm<transA=1>(x, m, k)", {"x": (16, 2)}, m=gaussian_array(16, 8), k=gaussian_array(8)
    ),
    "gemm C of rank 2": build_network(
        "y = Gemm(x, m, k)", ROW, m=gaussian_array(16, 8), k=gaussian_array(1, 8)
    ),
    "gemm scalar C": build_network(
        "y = Gemm(x, m, k)", ROW, m=gaussian_array(16, 8), k=np.float32(0.5)
    ),
    "gemm full C": build_network(
        "y = Gemm(x, m, k)", ROW, m=gaussian_array(16, 8), k=gaussian_array(2, 8)
    ),
    "gemm column C": build_network(
        "y = Gemm(x, m, k)", {"x": (8, 16)}, m=gaussian_array(16, 8), k=gaussian_array(8, 1)
    ),
    "gemm of two activations": build_network(
        "a = Relu(x)\nb = Relu(z)\ny = Gemm(a, b)", {"x": (4, 8), "z": (8, 6)}
    ),
    "gemm of two activations and C": build_network(
        "a = Relu(x)\nb = Relu(z)\ny = Gemm(a, b, k)",
        {"x": (4, 8), "z": (8, 6)},
        k=gaussian_array(6),
    ),
    "gemm twice": build_network(
        "h = Gemm(x, m, k)\nr = Relu(h)\ny = Gemm(r, n)",
        ROW,
        m=gaussian_array(16, 8),
        k=gaussian_array(8),
        n=gaussian_array(8, 4),
    ),
    "matmul": build_network("y = MatMul(x, m)", ROW, m=gaussian_array(16, 8)),
    "matmul of rank 3": build_network(
        "y = MatMul(x, m)", {"x": (2, 5, 16)}, m=gaussian_array(16, 8)
    ),
    "matmul by rank 3": build_network(
        "y = MatMul(x, m)", {"x": (2, 5, 16)}, m=gaussian_array(2, 16, 8)
    ),
    "matmul add": build_network(
        "h = MatMul(x, m)\ny = Add(h, k)",
        {"x": (2, 5, 16)},
        m=gaussian_array(16, 8),
        k=gaussian_array(8),
    ),
    "matmul by a vector": build_network(
        "y = MatMul(x, m)", {"x": (2, 5, 16)}, m=gaussian_array(16)
    ),
    "matmul of a constant": build_network(
        "y = MatMul(m, x)", {"x": (16, 5)}, m=gaussian_array(8, 16)
    ),
    "attention": build_network(
        "q = MatMul(x, a)\nk = MatMul(x, b)\nv = MatMul(x, c)\n"
        "t = Transpose<perm=[0,2,1]>(k)\ns = MatMul(q, t)\np = Softmax<axis=-1>(s)\ny = MatMul(p, v)",
        {"x": (2, 5, 16)},
        a=gaussian_array(16, 8, scale=0.2),
        b=gaussian_array(16, 8, scale=0.2, seed=1),
        c=gaussian_array(16, 8, scale=0.2, seed=2),
    ),
    "shared weight": conv_network(f"d = Conv{SAME}(c, v, b)\ny = Conv{SAME}(d, v, b)", v=V),
    "shared weight and reader": conv_network(
        "m = Add(c, k)\ny = Conv(m, v)\n", k=V[:1, :, :1, :1], v=V
    ),
    "weight also a plain constant": build_network(
        "c = Conv(x, w)\nr = ReduceMax<keepdims=0>(w)\ny = Add(c, r)", w=W
    ),
    # pools and movers
    "max pool": conv_network("y = MaxPool<kernel_shape=[2,2],strides=[2,2]>(c)"),
    "max pool ceil": conv_network("y = MaxPool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(c)"),
    "max pool with indices": conv_network("y, i = MaxPool<kernel_shape=[2,2]>(c)"),
    "max pool of the input": build_network(
        "p = MaxPool<kernel_shape=[2,2]>(x)\ny = Conv(p, w)", w=W
    ),
    "average pool": conv_network("y = AveragePool<kernel_shape=[2,2],strides=[2,2]>(c)"),
    "average pool padded": conv_network(
        "y = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1],count_include_pad=1>(c)"
    ),
    "average pool ceil": conv_network(
        "y = AveragePool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(c)"
    ),
    "global average pool": conv_network("y = GlobalAveragePool(c)"),
    "global max pool": conv_network("y = GlobalMaxPool(c)"),
    "mean over the image": conv_network("y = ReduceMean<axes=[2,3],keepdims=0>(c)"),
    "mean over channels": conv_network("m = ReduceMean<axes=[1]>(c)\ny = Add(m, c)"),
    "softmax over channels": conv_network("y = Softmax<axis=1>(c)"),
    "softmax of rows": build_network(
        "h = Gemm(x, m)\ny = Softmax(h)", ROW, m=gaussian_array(16, 40)
    ),
    "transpose": conv_network("y = Transpose<perm=[0,2,3,1]>(c)"),
    "transpose and back": conv_network(
        "t = Transpose<perm=[0,2,3,1]>(c)\nm = Mul(t, k)\nu = Transpose<perm=[0,3,1,2]>(m)\n"
        "y = Conv(u, v)",
        k=gaussian_array(8),
        v=V,
    ),
    "flatten": conv_network("f = Flatten(c)\ny = Gemm(f, m)", m=gaussian_array(512, 4, scale=0.1)),
    "reshape": conv_network("y = Reshape(c, s)", s=np.array([0, 2, -1], np.int64)),
    "reshape at run time": build_network(
        CONV + "t = Concat<axis=0>(s, e)\ny = Reshape(c, t)",
        {"x": (1, 3, 8, 8), "s": (1,)},
        types={"s": TensorProto.INT64},
        e=np.array([-1], np.int64),
        **WB,
    ),
    "reshape by shape": build_network(
        CONV + "s = Shape(c)\nb0 = Gather(s, i)\nu = Unsqueeze(b0, z)\nt = Concat<axis=0>(u, e)\n"
        "f = Reshape(c, t)\ny = Gemm(f, m)",
        {"x": ("n", 3, 8, 8)},
        i=np.int64(0),
        z=np.array([0], np.int64),
        e=np.array([512], np.int64),
        m=gaussian_array(512, 4, scale=0.1),
        **WB,
    ),
    "squeeze": conv_network(
        "g = GlobalAveragePool(c)\ns = Squeeze(g, a)\ny = Gemm(s, m)",
        a=np.array([2, 3], np.int64),
        m=gaussian_array(8, 4),
    ),
    "unsqueeze": conv_network("y = Unsqueeze(c, a)", a=np.array([0], np.int64)),
    "gather": conv_network("y = Gather<axis=1>(c, i)", i=np.array([0, 5], np.int64)),
    "slice": conv_network(
        "y = Slice(c, f, t, a)",
        f=np.array([1], np.int64),
        t=np.array([5], np.int64),
        a=np.array([1], np.int64),
    ),
    "pad": conv_network("y = Pad(c, p)", p=np.array([0, 1, 2, 0, 0, 0, 1, 3], np.int64)),
    "pad with a value": conv_network(
        "y = Pad(c, p, k)", p=np.array([0, 0, 2, 0, 0, 0, 1, 3], np.int64), k=np.float32(-0.5)
    ),
    "pad by reflection": conv_network(
        'y = Pad<mode="reflect">(c, p)', p=np.array([0, 0, 2, 0, 0, 0, 1, 3], np.int64)
    ),
    "pad of the input": build_network(
        "p = Pad(x, q, k)\ny = Conv(p, w)",
        q=np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
        k=np.float32(1.5),
        w=W,
    ),
    "identity": conv_network("y = Identity(c)"),
    "split": conv_network("a, d = Split<axis=1>(c)\ny = Add(a, d)"),
    "resize": conv_network(
        'y = Resize<mode="nearest">(c, , s)', s=np.array([1, 1, 2, 2], np.float32)
    ),
}
