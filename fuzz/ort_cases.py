"""Random one-operator models for ONNX Runtime's QLinear operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from litert_cases import Draw
from onnx import helper, numpy_helper

Arrays = dict[str, Any]
_ONNX_OPS = ("QLinearConv", "QLinearMatMul", "QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class OrtCase:
    """One node: its attributes, its inputs in order, and which of them are fed."""

    attributes: Mapping[str, Any]
    arrays: Arrays
    fed: list[str]


def ort_output(op: str, case: OrtCase) -> Any:
    """Return ONNX Runtime's output for the case."""
    named = {n: a for n, a in case.arrays.items() if n}
    attributes = {
        k: v for k, v in case.attributes.items() if not (op != "QLinearSoftmax" and k == "opset")
    }
    graph = helper.make_graph(
        [helper.make_node(op, list(case.arrays), ["y"], domain="" if op in _ONNX_OPS else "com.microsoft",
                          **attributes)],
        "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(named[n].dtype),
                                       named[n].shape) for n in case.fed],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in named.items() if n not in case.fed],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {n: case.arrays[n] for n in case.fed})[0]


class _TypedDraw:
    """Random tensors of one type, and weights of a type that fits."""

    def __init__(self, d: Draw) -> None:
        self.d = d
        self.x, self.w = d.choose(
            (np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8), (np.uint8, np.int8)
        )

    def integers(self, *shape: int, kind: Any = None) -> Any:
        info = np.iinfo(kind or self.x)
        return self.d.integers(*shape, low=info.min, high=info.max, dtype=kind or self.x)

    def params(self, name: str, near: float = 0.03) -> Arrays:
        info = np.iinfo(self.x)
        zero = self.d.zero_point() - (-128 - int(info.min))
        return {f"{name}s": np.float32(self.d.scale(near)), f"{name}z": self.x(zero)}

    def weight(self, channels: int, near: float, spread: bool = True) -> Arrays:
        """Draw a weight, per-channel or per-tensor; signed weights are symmetric."""
        count = channels if spread and self.d.chance(0.7) else 1
        scales = np.float32([self.d.scale(near) for _ in range(count)])
        zeros = np.zeros(count, self.w)
        if self.w is np.uint8:
            zeros[:] = self.d.choose(0, 128, 255, int(self.d.rng.integers(256)))
        if count == 1 and channels != 1:
            scales, zeros = scales.reshape(()), zeros.reshape(())
        return {"ws": scales, "wz": zeros}

    def output_params(self, x: Arrays, w: Arrays, depth: int) -> Arrays:
        return self.params(
            "y", float(x["xs"]) * float(np.median(w["ws"])) * 74 * 74 * np.sqrt(depth) / 50
        )

    def bias(self, channels: int) -> Any:
        most = self.d.choose(0, 300, 30_000)
        return self.d.integers(channels, low=-most, high=most, dtype=np.int32)


def _conv(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    rank, depthwise = d.choose(1, 2, 2, 2, 2, 3), d.chance(0.3)
    group = d.choose(2, 5, 16, 33) if depthwise else d.choose(1, 1, 1, 2, 3)
    each, of_group = (
        (1, d.choose(1, 1, 2)) if depthwise else (d.choose(1, 3, 4, 16), d.choose(1, 2, 5, 16, 33))
    )
    image = [d.size(12) for _ in range(rank)]
    dilations = [d.choose(1, 1, 2, 3) for _ in image]
    kernel, pads = [], []
    for size, dilation in zip(image, dilations, strict=True):
        taps = int(d.rng.integers(1, min(size, 5) + 1))
        reach = (taps - 1) * dilation + 1
        begin = int(d.rng.integers(0, reach))
        end = int(d.rng.integers(0, reach))
        kernel.append(taps)
        pads.append([begin, max(end, reach - size - begin)])
    x, xp = t.integers(d.choose(1, 1, 2, 3), group * each, *image), t.params("x")
    outputs = group * of_group
    depth = int(np.prod(kernel)) * each
    wp = t.weight(outputs, 0.01 / max(1.0, np.sqrt(depth) / 4))
    w = t.integers(outputs, each, *kernel, kind=t.w)
    arrays = {"x": x, **xp, "w": w, **wp, **t.output_params(xp, wp, depth)}
    if d.chance(0.8):
        arrays["b"] = t.bias(outputs)
    given: dict[str, Any] = {
        "strides": [d.choose(1, 2, 3) for _ in image],
        "dilations": dilations,
        "group": group,
    }
    if d.chance(0.2):
        given["auto_pad"] = d.choose("SAME_UPPER", "SAME_LOWER")
        given["dilations"] = [1] * rank
    else:
        given["pads"] = [p[0] for p in pads] + [p[1] for p in pads]
    return OrtCase(given, arrays, ["x"])


def _matmul(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    rows, depth, columns = d.size(), d.choose(1, 3, 64, 65, 700), d.choose(1, 2, 16, 33)
    wp, xp = t.weight(columns, 0.01), t.params("x")
    batch = d.shape(0, 2)
    # several matrices on the right have one scale
    if several := d.chance(0.3):
        wp = t.weight(columns, 0.01, spread=False)
    w = t.integers(*(batch if several else ()), depth, columns, kind=t.w)
    x = t.integers(*batch, rows, depth)
    fed = ["x", "w"] if d.chance(0.3) and wp["ws"].ndim == 0 else ["x"]
    return OrtCase({}, {"x": x, **xp, "w": w, **wp, **t.output_params(xp, wp, depth)}, fed)


def _gemm(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    rows, depth, columns = d.size(), d.choose(1, 3, 64, 65, 700), d.choose(1, 2, 16, 33)
    wp, xp, turned, alpha = (
        t.weight(columns, 0.01),
        t.params("x"),
        d.chance(),
        d.choose(1.0, 0.5, 1.7),
    )
    w = t.integers(*((columns, depth) if turned else (depth, columns)), kind=t.w)
    arrays = {"x": t.integers(rows, depth), **xp, "w": w, **wp}
    if d.chance(0.8):
        arrays["b"] = t.bias(columns)
    else:
        arrays[""] = None
    return OrtCase(
        {"alpha": alpha, "transB": int(turned)}, {**arrays, **t.output_params(xp, wp, depth)}, ["x"]
    )


def _binary(d: Draw, near: Callable[[float, float], float]) -> OrtCase:
    t = _TypedDraw(d)
    shape = list(d.shape(0, 4))
    if shape and d.chance(0.3):
        shape[-1] = d.choose(31, 64, 257)
    other = [n if d.chance(0.8) else 1 for n in shape]
    other = other[d.choose(0, 0, int(d.rng.integers(len(shape) + 1))) :]
    pair = [shape, other] if d.chance() else [other, shape]
    a, b = t.params("a"), t.params("b")
    y = t.params("y", near(float(a["as"]), float(b["bs"])))
    arrays = {"a": t.integers(*pair[0]), **a, "b": t.integers(*pair[1]), **b, **y}
    return OrtCase({}, arrays, d.choose(["a", "b"], ["a", "b"], ["a"], ["b"]))


def _add(d: Draw) -> OrtCase:
    return _binary(d, max)


def _mul(d: Draw) -> OrtCase:
    return _binary(d, lambda a, b: a * b * 60)


def _average_pool(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    rank = d.choose(1, 2, 2, 2, 3)
    image = [d.size(12) for _ in range(rank)]
    kernel = [int(d.rng.integers(1, min(size, 5) + 1)) for size in image]
    pads = [int(d.rng.integers(0, k)) for k in kernel * 2]
    given = {"kernel_shape": kernel, "strides": [d.choose(1, 2, 3) for _ in image], "pads": pads,
             "count_include_pad": d.choose(0, 1), "ceil_mode": d.choose(0, 0, 1)}  # fmt: skip
    if d.chance(0.3):
        del given["pads"]
        given["auto_pad"] = d.choose("SAME_UPPER", "SAME_LOWER", "VALID")
    if last := d.chance(0.2):
        given["channels_last"] = 1
    xp, batch, channels = t.params("x"), d.choose(1, 2), d.choose(1, 3, 16, 33)
    x = t.integers(batch, *image, channels) if last else t.integers(batch, channels, *image)
    return OrtCase(given, {"x": x, **xp, **t.params("y", float(xp["xs"]))}, ["x"])


def _global_average_pool(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    image, xp, last = (
        [d.size(30) for _ in range(d.choose(1, 2, 3))],
        t.params("x"),
        d.choose(0, 0, 1),
    )
    batch, channels = d.choose(1, 2), d.choose(1, 3, 16, 33)
    x = t.integers(batch, *image, channels) if last else t.integers(batch, channels, *image)
    return OrtCase({"channels_last": last}, {"x": x, **xp, **t.params("y", float(xp["xs"]))}, ["x"])


def _unary(d: Draw, near: float | None = None, **given: Any) -> OrtCase:
    t = _TypedDraw(d)
    xp = t.params("x", d.choose(0.03, 0.03, 1e-6, 1e6))
    every = np.arange(256, dtype=np.uint8).view(t.x).reshape(4, 64)
    y = t.params("y", near or float(xp["xs"]))
    # a zero point that is left out is 0
    zero = {"": None} if d.chance(0.1) else {"xz": xp["xz"]}
    return OrtCase(given, {"x": every, "xs": xp["xs"], **zero, **y}, ["x"])


def _softmax(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    axis_first = d.chance(0.2)
    x = t.integers(*d.shape(1, 3), d.choose(1, 2, 10, 65, 1000))
    xp = t.params("x", 0.1)
    y = (
        t.params("y", 1 / 256)
        if d.chance(0.3)
        else {"ys": np.float32(1 / 256), "yz": t.x(np.iinfo(t.x).min)}
    )
    axis = int(d.rng.integers(x.ndim)) if axis_first else -1
    return OrtCase({"axis": axis, "opset": d.choose(11, 12, 13, 13)}, {"x": x, **xp, **y}, ["x"])


def _concat(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    shape = d.shape(1, 4)
    axis = int(d.rng.integers(len(shape)))
    y = t.params("y")
    arrays, fed = {**y}, []
    for i in range(d.choose(1, 2, 4, 33)):
        arrays[f"x{i}"] = t.integers(*shape[:axis], d.size(), *shape[axis + 1 :])
        params = t.params(f"x{i}") if d.chance(0.7) else {f"x{i}s": y["ys"], f"x{i}z": y["yz"]}
        arrays |= params
        fed.append(f"x{i}")
    return OrtCase({"axis": axis - len(shape) if d.chance(0.3) else axis}, arrays, fed)


def _where(d: Draw) -> OrtCase:
    t = _TypedDraw(d)
    shape = d.shape(1, 4)
    c, a, b = (tuple(n if d.chance(0.8) else 1 for n in shape) for _ in range(3))
    arrays = {
        "c": d.integers(*c) > 0,
        "x": t.integers(*a),
        **t.params("x"),
        "b": t.integers(*b),
        **t.params("b"),
        **t.params("y"),
    }
    return OrtCase({}, arrays, ["c", "x", "b"])


def _affine(d: Draw) -> tuple[_TypedDraw, tuple[int, ...], int, Arrays]:
    """Draw a type, a shape, an axis, and scales and zero points, one or one for each entry along the axis."""
    t, shape = _TypedDraw(d), d.shape()
    axis = int(d.rng.integers(len(shape)))
    params = t.params("")
    if d.chance():
        params["s"] = np.float32([d.scale() for _ in range(shape[axis])])
        params["z"] = t.integers(shape[axis])
    return t, shape, axis, params


def _quantize(d: Draw) -> OrtCase:
    _, shape, axis, params = _affine(d)
    widest = float(np.max(params["s"]))
    real = d.rng.normal(0, 60 * widest, shape)
    if d.chance():
        real = np.round(real / widest * 2) / 2 * widest
    return OrtCase({"axis": axis}, {"x": real.astype(np.float32), **params}, ["x"])


def _dequantize(d: Draw) -> OrtCase:
    t, shape, axis, params = _affine(d)
    return OrtCase({"axis": axis}, {"x": t.integers(*shape), **params}, ["x"])


ORT_CASES: Mapping[str, Callable[[Draw], OrtCase]] = {
    "QLinearConv": _conv,
    "QLinearMatMul": _matmul,
    "QGemm": _gemm,
    "QLinearAdd": _add,
    "QLinearMul": _mul,
    "QLinearAveragePool": _average_pool,
    "QLinearGlobalAveragePool": _global_average_pool,
    "QLinearSigmoid": lambda d: _unary(d, 1 / 256),
    "QLinearLeakyRelu": lambda d: _unary(d, alpha=float(np.float32(d.rng.normal(0, 0.5)))),
    "QLinearSoftmax": _softmax,
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
}
