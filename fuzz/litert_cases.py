"""Random one-operator models for LiteRT: odd shapes, very different scales, ties, every attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Tensor = dict[str, Any]


@dataclass(frozen=True)
class LitertCase:
    """One operator with its inputs; the output is (scale, zero point), or a type where it has none.

    Only SLICE needs the output's shape, which it checks before it runs.
    """

    attributes: Mapping[str, Any]
    tensors: list[Tensor]
    output: tuple[float, int] | str
    shape: tuple[int, ...] = (1,)


class Draw:
    """Random tensors of one seed and one kind of scales: ordinary, powers of two, small ratios, very different."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind = ("ordinary", "ties", "ratios", "wide")[seed % 4]

    def choose(self, *choices: Any) -> Any:
        """Draw one of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float = 0.5) -> bool:
        """Return True with the given probability."""
        return bool(self.rng.random() < share)

    def size(self, most: int = 9) -> int:
        """Draw a dimension; 1 is the most frequent."""
        return 1 if self.chance(0.2) else int(self.rng.integers(1, most + 1))

    def shape(self, least: int = 1, most: int = 4) -> tuple[int, ...]:
        """Draw a shape whose rank is from ``least`` to ``most``."""
        return tuple(self.size() for _ in range(int(self.rng.integers(least, most + 1))))

    def scale(self, near: float = 0.03) -> float:
        """Draw a float32 scale near a value; scales with small ratios make ties."""
        if self.kind == "ratios":
            return float(np.float32(near / 20 * int(self.rng.integers(1, 41))))
        spread = {"ordinary": 0.7, "ties": 1.5, "wide": 4.0}[self.kind]
        real = near * np.exp(self.rng.uniform(-spread, spread))
        return float(np.float32(2.0 ** np.round(np.log2(real)) if self.kind == "ties" else real))

    def zero_point(self) -> int:
        """Draw a zero point, sometimes at an end of the range."""
        return self.choose(-128, 127, 0) if self.chance(0.3) else int(self.rng.integers(-128, 128))

    def integers(self, *shape: int, low: int = -128, high: int = 127, dtype: Any = np.int8) -> Any:
        """Draw integers, uniform or only from the ends of the range."""
        if self.chance(0.1):
            return self.rng.choice([low, high], shape).astype(dtype)
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def activation(
        self, name: str, *shape: int, like: Tensor | None = None, role: str = "input"
    ) -> Tensor:
        """Draw an activation; ``like`` gives its scale and zero point."""
        scale = [self.scale()] if like is None else like["scale"]
        zero = [self.zero_point()] if like is None else like["zero"]
        return {
            "name": name,
            "role": role,
            "value": self.integers(*shape),
            "scale": scale,
            "zero": zero,
        }

    def weight(self, name: str, shape: tuple[int, ...], channels: int, axis: int) -> Tensor:
        """Draw a constant weight, per-channel or per-tensor."""
        near = 0.01 / max(1.0, np.sqrt(np.prod(shape) / channels) / 4)
        count = channels if self.chance(0.7) else 1
        scales = [self.scale(near) for _ in range(count)]
        value = self.integers(*shape, low=-127)
        return {"name": name, "role": "const", "value": value, "scale": scales,
                "zero": [0] * count, "axis": axis}  # fmt: skip

    def bias(self, x: Tensor, w: Tensor, channels: int) -> Tensor:
        """Draw an int32 bias with some large values."""
        scales = [float(np.float32(x["scale"][0]) * np.float32(s)) for s in w["scale"]]
        most = self.choose(0, 300, 30_000)
        value = self.integers(channels, low=-most, high=most, dtype=np.int32)
        return {"name": "bias", "role": "const", "value": value, "scale": scales,
                "zero": [0] * len(scales)}  # fmt: skip

    def output_params(self, x: Tensor, w: Tensor, depth: int) -> tuple[float, int]:
        """Draw output parameters that neither flatten nor fully saturate a product of the given depth."""
        near = x["scale"][0] * float(np.median(w["scale"])) * 74 * 74 * np.sqrt(depth) / 50
        smallest = x["scale"][0] * max(w["scale"]) / 8  # a larger factor overflows the left shift
        return max(self.scale(near), float(np.float32(smallest))), self.zero_point()


def unquantized_tensor(name: str, value: Any, dtype: Any = np.int32, role: str = "const") -> Tensor:
    """Make a tensor that is not quantized."""
    return {"name": name, "role": role, "value": np.asarray(value, dtype), "scale": [], "zero": []}


def same_params(x: Tensor) -> tuple[float, int]:
    """Return the input's parameters as those of the output."""
    return x["scale"][0], x["zero"][0]


def _activation(d: Draw) -> str:
    return str(d.choose("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1"))


def _window(d: Draw, sizes: tuple[int, int], dilated: bool) -> tuple[dict[str, Any], int, int]:
    """Draw strides, padding and dilations, and a filter that fits the image."""
    padding = d.choose("SAME", "VALID")
    dilations = [d.choose(1, 1, 2, 3) if dilated else 1 for _ in range(2)]
    filters = []
    for size, dilation in zip(sizes, dilations, strict=True):
        # with SAME a filter may be larger than the image
        most = (size - 1) // dilation + 1 if padding == "VALID" else 2 * size + 1
        filters.append(int(d.rng.integers(1, min(most, 6) + 1)))
    given = {"padding": padding, "stride_h": d.choose(1, 2, 3), "stride_w": d.choose(1, 2, 3)}
    if dilated:
        given |= {"dilation_h": dilations[0], "dilation_w": dilations[1]}
    return given, filters[0], filters[1]


def _conv(d: Draw) -> LitertCase:
    group, each, of_group = d.choose(1, 1, 1, 2, 3), d.size(6), d.choose(1, 2, 5, 16, 70)
    image = (d.size(12), d.size(12))
    x = d.activation("input", d.choose(1, 1, 2, 3), *image, group * each)
    window, h, w = _window(d, image, dilated=True)
    kernel = d.weight("filter", (group * of_group, h, w, each), group * of_group, 0)
    given = window | {"activation": _activation(d)}
    return LitertCase(given, [x, kernel, d.bias(x, kernel, group * of_group)],
                d.output_params(x, kernel, h * w * each))  # fmt: skip


def _depthwise(d: Draw) -> LitertCase:
    channels, times = d.choose(1, 2, 7, 16, 67), d.choose(1, 1, 2, 3)
    image = (d.size(12), d.size(12))
    x = d.activation("input", d.choose(1, 1, 2), *image, channels)
    window, h, w = _window(d, image, dilated=True)
    # LiteRT wants equal strides here
    given = window | {"stride_w": window["stride_h"], "activation": _activation(d)}
    kernel = d.weight("filter", (1, h, w, channels * times), channels * times, 3)
    given |= {"depth_multiplier": times}
    return LitertCase(given, [x, kernel, d.bias(x, kernel, channels * times)],
                d.output_params(x, kernel, h * w))  # fmt: skip


def _transpose_conv(d: Draw) -> LitertCase:
    channels, outputs, strides = d.size(), d.size(), (d.choose(1, 2, 3), d.choose(1, 2, 3))
    x = d.activation("input", d.choose(1, 2), d.size(6), d.size(6), channels)
    h, w, padding = d.size(4), d.size(4), d.choose("SAME", "VALID")
    image = [
        size * s if padding == "SAME" else (size - 1) * s + k
        for size, s, k in zip(x["value"].shape[1:3], strides, (h, w), strict=True)
    ]
    kernel = d.weight("weights", (outputs, h, w, channels), outputs, 0)
    shape = [len(x["value"]), *image, outputs]
    given = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1],
             "output_shape": shape, "activation": _activation(d)}  # fmt: skip
    return LitertCase(given, [unquantized_tensor("output_shape", shape), kernel, x, d.bias(x, kernel, outputs)],
                d.output_params(x, kernel, h * w * channels))  # fmt: skip


def _fully_connected(d: Draw) -> LitertCase:
    depth, outputs = d.choose(1, 3, 40, 65, 700), d.size(70)
    x = d.activation("input", *d.shape(1, 2), depth)
    if flat := d.chance():
        x["value"] = x["value"].reshape(-1, depth)
    kernel = d.weight("weights", (outputs, depth), outputs, 0)
    tensors = [x, kernel, *([d.bias(x, kernel, outputs)] if d.chance(0.8) else [])]
    given = {"activation": _activation(d), "keep_num_dims": not flat}
    return LitertCase(given, tensors, d.output_params(x, kernel, depth))


def _batch_matmul(d: Draw) -> LitertCase:
    rows, depth, columns = d.size(), d.choose(1, 5, 64, 129), d.size()
    adj_x, adj_y, batch = d.chance(), d.chance(), d.shape(0, 2)
    left, right = (
        (depth, rows) if adj_x else (rows, depth),
        (columns, depth) if adj_y else (depth, columns),
    )
    a = d.activation("lhs", *batch, *left)
    b = d.activation("rhs", *(d.choose(n, 1) for n in batch), *right)
    if batch and d.chance(0.3):
        a["value"] = a["value"][:1]
    if a["value"].ndim == 2:
        a["value"], b["value"] = a["value"][None], b["value"][None]
    return LitertCase({"adj_x": adj_x, "adj_y": adj_y}, [a, b], d.output_params(a, b, depth))


def _pair(d: Draw) -> list[Tensor]:
    """Draw two inputs whose shapes broadcast."""
    shape = list(d.shape(1, 4))
    other = [n if d.chance(0.8) else 1 for n in shape][
        d.choose(0, 0, int(d.rng.integers(len(shape)))) :
    ]
    pair = [shape, other] if d.chance() else [other, shape]
    return [d.activation(f"input{i + 1}", *s) for i, s in enumerate(pair)]


def _add(d: Draw) -> LitertCase:
    return LitertCase({"activation": _activation(d)}, _pair(d), (d.scale(), d.zero_point()))


def _mul(d: Draw) -> LitertCase:
    a, b = _pair(d)
    near = a["scale"][0] * b["scale"][0] * 60
    return LitertCase({"activation": _activation(d)}, [a, b], (d.scale(near), d.zero_point()))


def _comparison(d: Draw) -> LitertCase:
    return LitertCase({}, _pair(d), "bool")


def _extremum(d: Draw) -> LitertCase:
    a, b = _pair(d)
    b |= {"scale": a["scale"], "zero": a["zero"]}
    return LitertCase({}, [a, b], same_params(a))


def _pool(d: Draw) -> LitertCase:
    image = (d.size(12), d.size(12))
    x = d.activation("input", d.choose(1, 2), *image, d.choose(1, 3, 16, 33))
    window, h, w = _window(d, image, dilated=False)
    given = window | {"filter_h": h, "filter_w": w, "activation": _activation(d)}
    return LitertCase(given, [x], same_params(x))


def _axes(d: Draw, rank: int) -> list[int]:
    axes = sorted(d.rng.permutation(rank)[: d.rng.integers(1, rank + 1)].tolist())
    axes += axes[:1] if d.chance(0.1) else []  # named twice it counts once
    return [a - rank if d.chance(0.2) else a for a in axes]


def _reduce(d: Draw, *, moves: bool) -> LitertCase:
    x = d.activation("input", *d.shape(1, 4))
    axes, keep = _axes(d, x["value"].ndim), d.chance()
    output = same_params(x) if moves else (d.scale(x["scale"][0]), d.zero_point())
    return LitertCase(
        {"axis": axes, "keep_dims": keep}, [x, unquantized_tensor("axis", axes)], output
    )


def _all_int8_values(d: Draw) -> Tensor:
    x = d.activation("input", 4, 64)
    x["value"] = np.arange(-128, 128, dtype=np.int8).reshape(4, 64)
    return x


def _unary(d: Draw, **given: Any) -> LitertCase:
    x = _all_int8_values(d)
    return LitertCase(given, [x], (d.scale(x["scale"][0]), d.zero_point()))


def _fixed(scale: float, zero: int) -> Callable[[Draw], LitertCase]:
    return lambda d: LitertCase({}, [_all_int8_values(d)], (scale, zero))


def _softmax(d: Draw, *, output: tuple[float, int], given: Mapping[str, Any]) -> LitertCase:
    x = d.activation("input", *d.shape(1, 3), d.choose(2, 3, 10, 65, 300))
    x["scale"] = [d.scale(0.1)]
    x["value"] = x["value"].reshape(-1, x["value"].shape[-1])
    return LitertCase({**given}, [x], output)


def _quantize(d: Draw) -> LitertCase:
    if d.chance():
        return _unary(d)
    output = d.scale(), d.zero_point()
    real = d.rng.normal(0, 60 * output[0], d.shape())
    if d.chance():
        real = (np.round(2 * real / output[0]) / 2) * output[0]
    return LitertCase({}, [unquantized_tensor("input", real, np.float32, "input")], output)


def _dequantize(d: Draw) -> LitertCase:
    return LitertCase({}, [_all_int8_values(d)], "float32")


def _resize(d: Draw) -> LitertCase:
    x = d.activation("input", d.choose(1, 2), d.size(20), d.size(20), d.choose(1, 3, 16))
    size, corners = [d.size(40), d.size(40)], d.choose((False, False), (True, False), (False, True))
    given = {"size": size, "align_corners": corners[0], "half_pixel_centers": corners[1]}
    return LitertCase(given, [x, unquantized_tensor("size", size)], same_params(x))


def _hard_swish(d: Draw) -> LitertCase:
    x = _all_int8_values(d)
    smallest = float(np.float32(x["scale"][0] / 120))  # LiteRT stops at a smaller one
    return LitertCase({}, [x], (max(d.scale(x["scale"][0] / 2), smallest), d.zero_point()))


def _div(d: Draw) -> LitertCase:
    """Draw a division without zero divisors, where LiteRT stops; quotients range from below an LSB to saturation."""
    a, b = _pair(d)
    zero = b["zero"][0]
    b["value"] = np.where(b["value"] == zero, -1 if zero >= 0 else 1, b["value"]).astype(np.int8)
    near = a["scale"][0] / b["scale"][0] / 30
    if d.chance(0.3):
        near *= 2.0 ** int(d.rng.integers(-40, 41))
    return LitertCase({"activation": _activation(d)}, [a, b], (d.scale(near), d.zero_point()))


def _positive_unary(d: Draw) -> LitertCase:
    x = d.activation("input", 1, 256)
    x["value"], x["zero"] = d.integers(1, 256, low=1), [0]
    return LitertCase({}, [x], (d.scale(0.02), d.zero_point()))


def _prelu(d: Draw) -> LitertCase:
    x = d.activation("input", d.choose(1, 2), d.size(), d.size(), d.choose(1, 4, 33))
    _, h, w, c = x["value"].shape
    shape = d.choose((1, 1, c), (1, 1, c), (h, w, c), (h, 1, c), (c,), (1, 1, 1))
    alpha = d.activation("alpha", *shape, role=d.choose("const", "input"))
    return LitertCase({}, [x, alpha], (d.scale(x["scale"][0]), d.zero_point()))


def _l2_normalization(d: Draw) -> LitertCase:
    x = d.activation("input", *d.shape(1, 3), d.choose(1, 2, 8, 63))
    return LitertCase({"activation": "NONE"}, [x], (1 / 128, 0))


CASES: Mapping[str, Callable[[Draw], LitertCase]] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transpose_conv,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "ADD": _add,
    "SUB": _add,
    "MUL": _mul,
    **dict.fromkeys(
        ["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"], _comparison
    ),
    "MAXIMUM": _extremum,
    "MINIMUM": _extremum,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "MEAN": lambda d: _reduce(d, moves=False),
    "REDUCE_MAX": lambda d: _reduce(d, moves=True),
    "REDUCE_MIN": lambda d: _reduce(d, moves=True),
    "LOGISTIC": _fixed(1 / 256, -128),
    "TANH": _fixed(1 / 128, 0),
    "SOFTMAX": lambda d: _softmax(
        d, output=(1 / 256, -128), given={"beta": d.choose(1.0, 1.0, 0.5, 2.5)}
    ),
    "LOG_SOFTMAX": lambda d: _softmax(d, output=(16 / 256, 127), given={}),
    "L2_NORMALIZATION": _l2_normalization,
    "RELU": _unary,
    "RELU6": _unary,
    "RELU_N1_TO_1": _unary,
    "LEAKY_RELU": lambda d: _unary(d, alpha=float(np.float32(d.rng.normal(0, 0.5)))),
    "PRELU": _prelu,
    "HARD_SWISH": _hard_swish,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "ABS": _unary,
    "DIV": _div,
    "EXP": _unary,
    "LOG": _positive_unary,
    "SQRT": _positive_unary,
    "GELU": lambda d: _unary(d, approximate=d.chance()),
}
"""Operators that compute; those that move are in ``litert_moves``."""
