"""How other tools write one quantized layer, and which of its operators ONNX Runtime runs on integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from foreign_models import random_integers
from networks import gaussian_array

IMAGE_SHAPE = (1, 3, 8, 8)
MATRIX_SHAPE = (5, 16)
WEIGHT_DEQUANTIZER = "wd = DequantizeLinear(w, w_scale, w_zero)\n"


@dataclass(frozen=True)
class Pattern:
    """One way to write a layer.

    Attributes:
        nodes: Between the input's and the output's quantizers.
        integers: The operators that run on integers, and whose integers are compared.
        shape: Of the input.
        constants: Initializers.
    """

    nodes: str
    integer_ops: set[str]
    shape: tuple[int, ...] = IMAGE_SHAPE
    constants: dict[str, Any] = field(default_factory=dict)
    opset: int = 17


CONV_WEIGHT = {"w": random_integers(8, 3, 3, 3)}
GEMM_WEIGHT = {"w": random_integers(16, 8)}
UNSIGNED_RELU = {"y_zero": np.uint8(0)}

PATTERNS = {
    "a MatMul and a float bias that is added": Pattern(
        WEIGHT_DEQUANTIZER + "m = MatMul(xd, wd)\nr = Add(m, b)",
        {"Gemm", "QuantizeLinear"},
        MATRIX_SHAPE,
        GEMM_WEIGHT | {"b": gaussian_array(8)},
    ),
    "a float bias added to a product of three axes": Pattern(
        WEIGHT_DEQUANTIZER + "m = MatMul(xd, wd)\nr = Add(b, m)",
        {"QuantizeLinear", "Reshape"},
        (2, 5, 16),
        GEMM_WEIGHT | {"b": gaussian_array(8)},
    ),
    "a Gemm with a float C": Pattern(
        WEIGHT_DEQUANTIZER + "r = Gemm(xd, wd, b)",
        {"Gemm", "QuantizeLinear"},
        MATRIX_SHAPE,
        GEMM_WEIGHT | {"b": gaussian_array(8)},
    ),
    "a Gemm with a float C and alpha": Pattern(
        WEIGHT_DEQUANTIZER + "r = Gemm<alpha = 0.5>(xd, wd, b)",
        {"QuantizeLinear"},
        MATRIX_SHAPE,
        GEMM_WEIGHT | {"b": gaussian_array(8)},
    ),
    "a Conv with a float bias": Pattern(
        WEIGHT_DEQUANTIZER + "r = Conv(xd, wd, b)",
        {"Conv", "QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT | {"b": gaussian_array(8)},
    ),
    "a Gemm with an int32 bias of another scale than input times weight": Pattern(
        WEIGHT_DEQUANTIZER + "bd = DequantizeLinear(b, b_scale)\nr = Gemm(xd, wd, bd)",
        {"Gemm", "QuantizeLinear"},
        MATRIX_SHAPE,
        GEMM_WEIGHT
        | {"b": random_integers(8, dtype=np.int16).astype(np.int32), "b_scale": np.float32(0.07)},
    ),
    "a Conv with an int32 bias of another scale than input times weight": Pattern(
        WEIGHT_DEQUANTIZER + "bd = DequantizeLinear(b, b_scale)\nr = Conv(xd, wd, bd)",
        {"QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT
        | {"b": random_integers(8, dtype=np.int16).astype(np.int32), "b_scale": np.float32(0.07)},
    ),
    "a Relu that the quantizer repeats": Pattern(
        WEIGHT_DEQUANTIZER + "c = Conv(xd, wd, b)\nr = Relu(c)",
        {"Conv", "QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT | UNSIGNED_RELU | {"b": gaussian_array(8)},
    ),
    "a Clip that the quantizer repeats": Pattern(
        WEIGHT_DEQUANTIZER + "c = Conv(xd, wd)\nr = Clip(c, low, high)",
        {"Conv", "QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT
        | UNSIGNED_RELU
        | {
            "low": np.float32(0),
            "high": np.float32(6),
            "y_scale": np.float32(6 / 255),
        },
    ),
    "a Relu that cuts into the output's range": Pattern(
        WEIGHT_DEQUANTIZER + "c = Conv(xd, wd, b)\nr = Relu(c)",
        {"QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT | {"b": gaussian_array(8)},
    ),
    "a Clip that cuts into the output's range": Pattern(
        WEIGHT_DEQUANTIZER + "c = Conv(xd, wd)\nr = Clip(c, low, high)",
        {"QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT | UNSIGNED_RELU | {"low": np.float32(0), "high": np.float32(6)},
    ),
    "weights that the graph itself quantizes": Pattern(
        "wq = QuantizeLinear<axis = 0>(w, w_scale, w_zero)\n"
        "wd = DequantizeLinear<axis = 0>(wq, w_scale, w_zero)\n"
        "c = Conv(xd, wd, b)\nr = Relu(c)",
        {"Conv", "QuantizeLinear"},
        IMAGE_SHAPE,
        UNSIGNED_RELU
        | {
            "w": gaussian_array(8, 3, 3, 3),
            "w_scale": np.linspace(0.01, 0.02, 8, dtype=np.float32),
            "w_zero": np.zeros(8, np.int8),
            "b": gaussian_array(8),
        },
    ),
    "weights that are turned round behind their quantizer": Pattern(
        "wt = DequantizeLinear<axis = 0>(w, w_scale, w_zero)\n"
        "wd = Transpose<perm = [1, 0]>(wt)\nm = MatMul(xd, wd)\nr = Add(m, b)",
        {"Gemm", "QuantizeLinear"},
        MATRIX_SHAPE,
        {
            "w": random_integers(8, 16),
            "w_scale": np.linspace(0.01, 0.02, 8, dtype=np.float32),
            "w_zero": np.zeros(8, np.int8),
            "b": gaussian_array(8),
        },
    ),
    "unsigned weights with a zero point": Pattern(
        WEIGHT_DEQUANTIZER + "r = Conv(xd, wd)",
        {"Conv", "QuantizeLinear"},
        IMAGE_SHAPE,
        {"w": random_integers(8, 3, 3, 3, dtype=np.uint8), "w_zero": np.uint8(131)},
    ),
    "a weight zero point a channel": Pattern(
        "wd = DequantizeLinear<axis = 0>(w, w_scale, w_zero)\nr = Conv(xd, wd)",
        {"Conv", "QuantizeLinear"},
        IMAGE_SHAPE,
        {
            "w": random_integers(8, 3, 3, 3, dtype=np.uint8),
            "w_scale": np.linspace(0.01, 0.02, 8, dtype=np.float32),
            "w_zero": np.arange(124, 132, dtype=np.uint8),
        },
    ),
    "movements without quantizers": Pattern(
        WEIGHT_DEQUANTIZER
        + "p = MaxPool<kernel_shape = [2, 2]>(xd)\nt = Transpose<perm = [0, 1, 3, 2]>(p)\n"
        "c = Conv(t, wd)\nr = Reshape(c, flat)",
        {"QuantizeLinear", "Reshape"},
        IMAGE_SHAPE,
        CONV_WEIGHT | {"flat": np.array([1, -1])},
    ),
    "Microsoft's quantizers of weights": Pattern(
        "wd = com.microsoft.DequantizeLinear(w, w_scale, w_zero)\nr = Conv(xd, wd)",
        {"Conv", "QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT,
    ),
    "a dequantizer that two read": Pattern(
        WEIGHT_DEQUANTIZER + "c = Conv(xd, wd)\ncq = QuantizeLinear(c, y_scale, y_zero)\n"
        "cd = DequantizeLinear(cq, y_scale, y_zero)\ns = Sigmoid(cd)\n"
        "sq = QuantizeLinear(s, x_scale, x_zero)\nsd = DequantizeLinear(sq, x_scale, x_zero)\n"
        "r = Mul(cd, sd)",
        {"Conv", "Sigmoid", "Mul", "QuantizeLinear"},
        IMAGE_SHAPE,
        CONV_WEIGHT,
    ),
    "several dequantizers after one quantizer": Pattern(
        WEIGHT_DEQUANTIZER
        + "xe = DequantizeLinear(xq, x_scale, x_zero)\nc = Conv<pads = [1, 1, 1, 1]>(xd, wd)\n"
        "cq = QuantizeLinear(c, y_scale, y_zero)\ncd = DequantizeLinear(cq, y_scale, y_zero)\n"
        "r = Add(cd, xe)",
        {"Conv", "Add", "QuantizeLinear"},
        IMAGE_SHAPE,
        {"w": random_integers(3, 3, 3, 3)},
    ),
    "a chain of quantizers": Pattern(
        "q1 = QuantizeLinear(xd, y_scale, y_zero)\nd1 = DequantizeLinear(q1, y_scale, y_zero)\n"
        "r = MaxPool<kernel_shape = [2, 2]>(d1)",
        {"Requantize", "MaxPool", "QuantizeLinear"},
    ),
    "a Gemm with its left operand transposed": Pattern(
        WEIGHT_DEQUANTIZER + "r = Gemm<transA = 1>(xd, wd, b)",
        {"Gemm", "QuantizeLinear"},
        (16, 5),
        GEMM_WEIGHT | {"b": gaussian_array(8)},
    ),
    "a ConvTranspose with scales along axis 1": Pattern(
        "wd = DequantizeLinear<axis = 1>(w, w_scale, w_zero)\nr = ConvTranspose(xd, wd)",
        {"QuantizeLinear"},
        IMAGE_SHAPE,
        {
            "w": random_integers(3, 4, 3, 3),
            "w_scale": np.linspace(0.01, 0.02, 4, dtype=np.float32),
            "w_zero": np.zeros(4, np.int8),
        },
    ),
    "a bias that is no constant a column": Pattern(
        WEIGHT_DEQUANTIZER + "m = MatMul(xd, wd)\nr = Add(m, b)",
        {
            "QuantizeLinear"
        },  # ONNX Runtime makes a Gemm of it, and has none with such a C in integers
        MATRIX_SHAPE,
        GEMM_WEIGHT | {"b": gaussian_array(5, 1)},
    ),
}
