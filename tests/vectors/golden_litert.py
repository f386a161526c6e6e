"""Case recorded from LiteRT → sites; operators and attributes in ONNX's terms, arrays channels last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from golden_case import GoldenCase, case_attributes, to_qparams
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.executor.arithmetics import get_arithmetic, litert, litert_xnnpack_elementwise
from ptq.executor.arithmetics.litert_elementwise import compute_activation_bounds
from ptq.executor.arithmetics.node_site import Site
from ptq.kernels.resize import LitertSampling

Attrs = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]
Translation = Callable[[Attrs, Arrays], Attrs]

# Constant tensors whose values are attributes too.
_ATTRIBUTE_TENSORS = frozenset([
    "shape", "perm", "paddings", "axis", "begin", "size", "end", "strides", "block", "crops", "output_shape",
    "multiples",
])  # fmt: skip
_ACTIVATIONS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
_AUTO_PAD = {"SAME": "SAME_UPPER", "VALID": "VALID"}


def _window(a: Attrs, arrays: Arrays) -> Attrs:
    return {
        "strides": (a["stride_h"], a["stride_w"]),
        "dilations": (a.get("dilation_h", 1), a.get("dilation_w", 1)),
        "auto_pad": _AUTO_PAD[a["padding"]],
    }


def _conv(a: Attrs, arrays: Arrays) -> Attrs:
    return {**_window(a, arrays), "group": arrays["input"].shape[-1] // arrays["filter"].shape[-1]}


def _depthwise(a: Attrs, arrays: Arrays) -> Attrs:
    return {**_window(a, arrays), "group": arrays["input"].shape[-1]}


def _transpose_conv(a: Attrs, arrays: Arrays) -> Attrs:
    """Derive the padding from the output shape, as LiteRT does; positions that no tap reaches are padded."""
    strides = (a["stride_h"], a["stride_w"])
    taps = arrays["weights"].shape[1:3]
    surplus = [
        (size - 1) * stride + tap - out
        for size, stride, tap, out in zip(
            arrays["input"].shape[1:3], strides, taps, a["output_shape"][1:3], strict=True
        )
    ]
    begin = [max(s, 0) // 2 for s in surplus]
    end = [max(s, 0) - b for s, b in zip(surplus, begin, strict=True)]
    return {
        "strides": strides,
        "pads": (*begin, *end),
        "output_padding": [max(-s, 0) for s in surplus],
        "auto_pad": "VALID" if a["padding"] == "VALID" else "NOTSET",
    }


def _pool(a: Attrs, arrays: Arrays) -> Attrs:
    return {**_window(a, arrays), "kernel_shape": (a["filter_h"], a["filter_w"])}


def _pads(a: Attrs, arrays: Arrays) -> Attrs:
    return {"pads": np.asarray(a["paddings"]).T.reshape(-1)}


def _slice(a: Attrs, arrays: Arrays) -> Attrs:
    sizes = arrays["input"].shape
    ends = [
        full if size == -1 else begin + size
        for begin, size, full in zip(a["begin"], a["size"], sizes, strict=True)
    ]
    return {"starts": a["begin"], "ends": ends}


def _strided_slice(a: Attrs, arrays: Arrays) -> Attrs:
    """A mask bit replaces a begin or end by that of the whole axis, or selects one position of the axis."""
    spans = []
    for size, at in zip(
        arrays["input"].shape, _positions_by_axis(a, arrays["input"].ndim), strict=True
    ):
        if at is None:
            start, end, step = 0, size, 1
        else:
            start, end, step = a["begin"][at], a["end"][at], a["strides"][at]
            if a.get("begin_mask", 0) >> at & 1:
                start = 0 if step > 0 else size - 1
            if a.get("end_mask", 0) >> at & 1:
                end = size if step > 0 else -size - 1
            if a.get("shrink_axis_mask", 0) >> at & 1:
                start %= size
                end = start + 1
        spans.append((start, end, step))
    starts, ends, steps = zip(*spans, strict=True)
    return {"starts": starts, "ends": ends, "steps": steps}


def _positions_by_axis(a: Attrs, rank: int) -> list[int | None]:
    """Position in begin and end of each axis; None for axes covered by an ellipsis, or missing at the end.

    A new axis has length 1 and is ignored.
    """
    old = [i for i in range(len(a["begin"])) if not a.get("new_axis_mask", 0) >> i & 1]
    gap = next((n for n, i in enumerate(old) if a.get("ellipsis_mask", 0) >> i & 1), None)
    before, after = (old, []) if gap is None else (old[:gap], old[gap + 1 :])
    return [*before, *[None] * (rank - len(before) - len(after)), *after]


def _reduce(a: Attrs, arrays: Arrays) -> Attrs:
    return {"axes": a["axis"], "keepdims": int(a["keep_dims"])}


def _resize(a: Attrs, arrays: Arrays) -> Attrs:
    if a["align_corners"]:
        how = {
            "coordinate_transformation_mode": "align_corners",
            "nearest_mode": "round_prefer_ceil",
        }
    elif a["half_pixel_centers"]:
        how = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    else:
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    corners = LitertSampling(bool(a["align_corners"]), bool(a["half_pixel_centers"]))
    return {"sizes": a["size"], "axes": (2, 3), "corners": corners, **how}


def _gather(a: Attrs, arrays: Arrays) -> Attrs:
    if a.get("batch_dims", 0):
        raise UnsupportedError(
            "cases of GATHER with batch_dims cannot be read; Gather in ONNX has no batch_dims"
        )
    return {"axis": a["axis"]}


def _gelu(a: Attrs, arrays: Arrays) -> Attrs:
    return {"approximate": "tanh" if a["approximate"] else "none"}


def _no_attributes(a: Attrs, arrays: Arrays) -> Attrs:
    return {}


def _copy_attributes(*names: str, **renamed: str) -> Translation:
    """Copy attributes, with the same or another name."""
    keys = {**{name: name for name in names}, **renamed}
    return lambda a, arrays: {new: a[old] for new, old in keys.items() if old in a}


_TRANSLATIONS: Mapping[str, tuple[str, Translation]] = {
    "ABS": ("Abs", _no_attributes),
    "ADD": ("Add", _no_attributes),
    "ARG_MAX": ("ArgMax", lambda a, arrays: {"axis": a["axis"], "keepdims": 0}),
    "ARG_MIN": ("ArgMin", lambda a, arrays: {"axis": a["axis"], "keepdims": 0}),
    "AVERAGE_POOL_2D": ("AveragePool", _pool),
    "BATCH_MATMUL": ("MatMul", _no_attributes),
    "BROADCAST_TO": ("Expand", _copy_attributes("shape")),
    "BATCH_TO_SPACE_ND": ("BatchToSpaceND", _copy_attributes("block", "crops")),
    "CONCATENATION": ("Concat", _copy_attributes("axis")),
    "CONV_2D": ("Conv", _conv),
    "DEPTHWISE_CONV_2D": ("Conv", _depthwise),
    "DEPTH_TO_SPACE": ("DepthToSpace", _copy_attributes(blocksize="block_size")),
    "DEQUANTIZE": ("DequantizeLinear", _no_attributes),
    "DIV": ("Div", _no_attributes),
    "EQUAL": ("Equal", _no_attributes),
    "EXP": ("Exp", _no_attributes),
    "FULLY_CONNECTED": ("Gemm", lambda a, arrays: {"transB": 1}),
    "GATHER": ("Gather", _gather),
    "GELU": ("Gelu", _gelu),
    "GREATER": ("Greater", _no_attributes),
    "GREATER_EQUAL": ("GreaterOrEqual", _no_attributes),
    "HARD_SWISH": ("HardSwish", _no_attributes),
    "L2_NORMALIZATION": ("LpNormalization", _no_attributes),
    "LEAKY_RELU": ("LeakyRelu", _copy_attributes("alpha")),
    "LESS": ("Less", _no_attributes),
    "LESS_EQUAL": ("LessOrEqual", _no_attributes),
    "LOG": ("Log", _no_attributes),
    "LOGISTIC": ("Sigmoid", _no_attributes),
    "LOG_SOFTMAX": ("LogSoftmax", _no_attributes),
    "MAXIMUM": ("Max", _no_attributes),
    "MAX_POOL_2D": ("MaxPool", _pool),
    "MEAN": ("ReduceMean", _reduce),
    "MINIMUM": ("Min", _no_attributes),
    "MUL": ("Mul", _no_attributes),
    "NOT_EQUAL": ("NotEqual", _no_attributes),
    "PAD": ("Pad", _pads),
    "PADV2": ("Pad", _pads),
    "PRELU": ("PRelu", _no_attributes),
    "QUANTIZE": ("Requantize", _no_attributes),
    "REDUCE_MAX": ("ReduceMax", _reduce),
    "REDUCE_MIN": ("ReduceMin", _reduce),
    "RELU": ("Relu", _no_attributes),
    "RELU6": ("Clip", lambda a, arrays: {"min": 0.0, "max": 6.0}),
    "RELU_N1_TO_1": ("Clip", lambda a, arrays: {"min": -1.0, "max": 1.0}),
    "RESHAPE": ("Reshape", _copy_attributes(shape="new_shape")),
    "RESIZE_BILINEAR": ("Resize linear", _resize),
    "RESIZE_NEAREST_NEIGHBOR": ("Resize nearest", _resize),
    "SELECT_V2": ("Where", _no_attributes),
    "SHAPE": ("Shape", _no_attributes),
    "SLICE": ("Slice", _slice),
    "SOFTMAX": ("Softmax", _copy_attributes("beta")),
    "SPACE_TO_BATCH_ND": ("SpaceToBatchND", _copy_attributes("block", "paddings")),
    "SPACE_TO_DEPTH": ("SpaceToDepth", _copy_attributes(blocksize="block_size")),
    "SQRT": ("Sqrt", _no_attributes),
    "SQUEEZE": ("Squeeze", lambda a, arrays: {"axes": a["squeeze_dims"] or None}),
    "STRIDED_SLICE": ("Slice", _strided_slice),
    "SUB": ("Sub", _no_attributes),
    "SUM": ("ReduceSum", _reduce),
    "TANH": ("Tanh", _no_attributes),
    "TILE": ("Tile", _copy_attributes(repeats="multiples")),
    "TRANSPOSE": ("Transpose", _copy_attributes("perm")),
    "TRANSPOSE_CONV": ("ConvTranspose", _transpose_conv),
}


def from_litert_case(case: Mapping[str, Any], arrays: Arrays) -> list[GoldenCase]:
    """Convert a case into a site of its arithmetic, ``litert`` where it names none.

    FULLY_CONNECTED becomes a second site with gemmlowp's rounding.

    Raises:
        UnsupportedError: The operator is unknown.
    """
    name, given = str(case["op"]), case_attributes(case)
    if name not in _TRANSLATIONS:
        raise UnsupportedError(f"cases of {name} cannot be read; leave out this operator")
    op, translate = _TRANSLATIONS[name]
    described = {str(t["name"]): t for t in case["tensors"] if t["name"] not in _ATTRIBUTE_TENSORS}
    output = described.pop("output")
    names = sorted(described, key=lambda n: n != "input") if "input" in described else [*described]
    values = {n: arrays[n] for n in names}
    quantized = {n: _params(n, arrays, described[n]) for n in names}
    if name == "DEPTHWISE_CONV_2D":
        values["filter"] = values["filter"].transpose(3, 1, 2, 0)
        quantized["filter"] = _with_axis(quantized["filter"], 0)
    if name == "BATCH_MATMUL":
        for flag, side in (("adj_x", "lhs"), ("adj_y", "rhs")):
            values[side] = values[side].swapaxes(-1, -2) if given.get(flag) else values[side]
    if name == "FULLY_CONNECTED":
        values["input"] = values["input"].reshape(-1, values["weights"].shape[-1])
    if name == "QUANTIZE" and quantized["input"] is None:
        op = "QuantizeLinear"
    if name == "PADV2":
        names.insert(1, "")
    y = _params("output", arrays, output)
    constants = {n for n in described if described[n]["role"] == "const"}
    if name == "BATCH_MATMUL":
        constants.clear()  # with a constant right operand it would run as a FULLY_CONNECTED
    bits = y.qtype.bits if y is not None else 8
    site = Site(
        op,
        translate(given, values | {"input": arrays["input"]} if "input" in arrays else values),
        tuple(quantized.get(n) for n in names),
        (y,),
        tuple(values[n] if n in constants else None for n in names),
        bits=bits,
    )
    arithmetic = str(case.get("arithmetic", "litert"))
    is_fused_by_xnnpack = arithmetic == "litert-xnnpack" and bits == 8 and _is_fused(site)
    site = replace(site, clamp=_clamp(given, y, is_fused_by_xnnpack))
    row = get_arithmetic(arithmetic)
    maker = (row.kernels if bits == 8 else row.wide_kernels).get(op)
    golden = GoldenCase(
        arithmetic, site, tuple(values.get(n) for n in names), arrays["output"], maker
    )
    if "output__tflite_micro" in arrays and name == "FULLY_CONNECTED":
        expected = arrays["output__tflite_micro"]
        micro = replace(
            golden, label="tflite-micro", expected=expected, maker=litert.make_gemmlowp_gemm_kernel
        )
        return [golden, micro]
    return [golden]


def _params(name: str, arrays: Arrays, tensor: Mapping[str, Any]) -> QuantParams | None:
    scale, zero = arrays.get(f"{name}__scale"), arrays.get(f"{name}__zero_point")
    return to_qparams(scale, zero, tensor["dtype"], int(tensor.get("quantized_dimension", 0)))


def _with_axis(quantized: QuantParams | None, axis: int) -> QuantParams | None:
    if quantized is None or quantized.axis is None:
        return quantized
    return replace(quantized, axis=axis)


def _is_fused(site: Site) -> bool:
    """Whether XNNPACK fuses a clamp into an operator; of transposed convolutions it does so too."""
    return site.op == "ConvTranspose" or litert_xnnpack_elementwise.is_taken(site)


def _clamp(given: Attrs, y: QuantParams | None, in_xnnpack: bool) -> tuple[int, int] | None:
    """Bounds of a fused activation, in integers of the output; None without an activation."""
    activation = given.get("activation", "NONE")
    if activation == "NONE" or y is None:
        return None
    if activation not in _ACTIVATIONS:
        raise UnsupportedError(f"cases with activation {activation} cannot be read")
    bounds = (
        litert_xnnpack_elementwise.compute_fused_bounds if in_xnnpack else compute_activation_bounds
    )
    return bounds(y, *_ACTIVATIONS[activation])
