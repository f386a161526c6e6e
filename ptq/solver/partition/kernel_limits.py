"""The uses of an operator that its integer kernels do not cover."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ptq.core.opspec import OpSpec
from ptq.core.target import Target
from ptq.kernels.resize import OnnxSampling, ResizeAxis, find_litert_sampling
from ptq.model.axes import resize_unsupported_reason
from ptq.model.node import Node, get_attributes, get_constant, get_shape, is_constant

MASK_MAGNITUDE = 1e4
"""From this magnitude on a constant masks activations (-1e4, -1e9, the lowest float): no 8-bit range holds both."""
_TRIED_LENGTHS = range(1, 257)
"""Lengths for which a Resize is checked where an axis varies."""


def explain_unsupported_node(node: Node, spec: OpSpec, target: Target) -> str | None:
    """The reason why the node has no integer kernel although its operator has one; None if it has one."""
    if target.float_activation_products and _is_product_of_activations(node, spec):
        return f"{target.source} gains nothing from integers in a product of two activations"
    checks = [_LIMITS.get(spec.op)]
    if target.follows_litert_spec:
        checks.append(_LITERT_LIMITS.get(spec.op))
    return next((reason for check in checks if check and (reason := check(node))), None)


def _is_product_of_activations(node: Node, spec: OpSpec) -> bool:
    return spec.two_activations and not is_constant(node.inputs[1])


def _check_gemm(node: Node) -> str | None:
    attrs = get_attributes(node)
    if any(attrs.get(name, 1.0) != 1.0 for name in ("alpha", "beta")):
        # ONNX Runtime runs it in float in a QDQ graph; its QGemm multiplies C by alpha too
        return "Gemm with alpha or beta has no integer kernel"
    return "Gemm with transA has no integer kernel" if attrs.get("transA") else None


def _check_pad(node: Node) -> str | None:
    mode = get_attributes(node).get("mode", "constant")
    return f"Pad in mode {mode} has no integer kernel" if mode != "constant" else None


def _check_average_pool(node: Node) -> str | None:
    attrs = get_attributes(node)
    if any(d != 1 for d in attrs.get("dilations", ())):
        return "AveragePool with dilations has no integer kernel"
    if attrs.get("ceil_mode") and attrs.get("count_include_pad") and _may_pass_padding(node):
        # ONNX Runtime 1.32: float divides by the padded elements of a window, integers by its whole kernel
        return "integer kernels count what ceil_mode adds behind the padding"
    return None


def _may_pass_padding(node: Node) -> bool:
    """Whether the last window of a pool can pass the padding; true where a length is open."""
    attrs, source = get_attributes(node), node.inputs[0]
    shape = (get_shape(source) if source is not None else None) or (None,) * 3
    kernel = attrs["kernel_shape"]
    rank = len(kernel)
    strides, pads = attrs.get("strides", (1,) * rank), attrs.get("pads", (0,) * 2 * rank)
    spans = zip(shape[2:], kernel, strides, pads[:rank], pads[rank:], strict=False)
    return any(n is None or (n + begin + end - k) % s for n, k, s, begin, end in spans)


def _check_litert_average_pool(node: Node) -> str | None:
    attrs = get_attributes(node)
    padded = any(attrs.get("pads", ())) or attrs.get("auto_pad", "NOTSET").startswith("SAME")
    return (
        "LiteRT's AVERAGE_POOL_2D does not count padding"
        if attrs.get("count_include_pad") and padded
        else None
    )


def _check_max_pool(node: Node) -> str | None:
    return "MaxPool with indices has no integer kernel" if len(node.outputs) > 1 else None


def _check_pow(node: Node) -> str | None:
    exponents = [a for a in map(get_constant, node.inputs[1:]) if a is not None]
    if any(a.size != 1 for a in exponents):
        return "Pow with several exponents is not a function of one value"
    return None


def _check_layer_normalization(node: Node) -> str | None:
    if len(node.outputs) > 1:
        return "LayerNormalization with its mean as an output has no integer kernel"
    return None


def _check_lp_normalization(node: Node) -> str | None:
    p = get_attributes(node).get("p", 2)
    return f"LiteRT's L2_NORMALIZATION has p = 2, not {p}" if p != 2 else None


def _check_reduction(node: Node) -> str | None:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    constant = get_constant(axes)
    none = axes is None or (constant is not None and not constant.size)
    if get_attributes(node).get("noop_with_empty_axes") and none:
        return "reduces along no axis"
    return None


def _check_where(node: Node) -> str | None:
    for value in node.inputs[1:]:
        array = get_constant(value)
        if array is not None and array.size and np.abs(array).max() >= MASK_MAGNITUDE:
            largest = float(array.flat[np.abs(array).argmax()])
            return f"its constant {largest:g} is a mask: 8 bits cannot hold it and the values"
    return None


def _check_resize(node: Node) -> str | None:
    return resize_unsupported_reason(get_attributes(node))


def _check_litert_resize(node: Node) -> str | None:
    """LiteRT resizes height and width only, in three systems of coordinates."""
    attrs, found = get_attributes(node), _list_possible_axes(node)
    if found is None:
        return "LiteRT resizes by constant factors, or from fixed to constant sizes"
    batch, depth, *image = found
    if len(image) not in (1, 2) or any(case.size != case.output_size for case in (*batch, *depth)):
        return "LiteRT resizes height and width only"
    linear = attrs.get("mode", "nearest") == "linear"
    coordinates = str(attrs.get("coordinate_transformation_mode", "half_pixel"))
    rounding = str(attrs.get("nearest_mode", "round_prefer_floor"))
    sampling = OnnxSampling(coordinates, None if linear else rounding)
    # an axis that varies is checked length by length: LiteRT may have the factor for some lengths only
    if all(
        find_litert_sampling(sampling, pair)
        for pair in zip(*_repeat_to_longest(image), strict=True)
    ):
        return None
    modes = coordinates if linear else f"{coordinates} and {rounding}"
    return f"LiteRT has no Resize with coordinates {modes} by these factors"


def _repeat_to_longest(axes: list[list[ResizeAxis]]) -> list[list[ResizeAxis]]:
    """The cases of each axis, those of an axis with one case repeated to the most cases of any axis."""
    most = max(len(cases) for cases in axes)
    return [cases * most if len(cases) == 1 else cases for cases in axes]


def _list_possible_axes(node: Node) -> list[list[ResizeAxis]] | None:
    """The possible cases of each axis: one if its length is fixed, else one for each length that is tried.

    None if the rank, or both scales and sizes, are unknown.
    """
    source = node.inputs[0]
    shape = get_shape(source) if source is not None else None
    given = [get_constant(value) for value in (*node.inputs, None, None, None)[2:4]]
    scales, sizes = (None if g is None or not g.size else g.reshape(-1) for g in given)
    if shape is None or (scales is None and sizes is None):
        return None
    resized = [int(a) % len(shape) for a in get_attributes(node).get("axes", range(len(shape)))]
    if any(g is not None and g.size != len(resized) for g in (scales, sizes)):
        return None
    found: list[list[ResizeAxis]] = [
        [ResizeAxis(n, n, 1.0) for n in (_TRIED_LENGTHS if d is None else (d,))] for d in shape
    ]
    for index, axis in enumerate(resized):
        cases = []
        for before in found[axis]:
            if sizes is not None:
                if shape[axis] is None:
                    return None
                out = int(sizes[index])
                cases.append(
                    ResizeAxis(before.size, out, float(np.float32(out) / np.float32(before.size)))
                )
            elif scales is not None:
                factor = np.float32(scales[index])
                cases.append(
                    ResizeAxis(
                        before.size, math.floor(factor * np.float32(before.size)), float(factor)
                    )
                )
        found[axis] = [case for case in cases if case.output_size]
    return found if all(found) else None


_LIMITS: Mapping[str, Callable[[Node], str | None]] = {
    "AveragePool": _check_average_pool,
    "Gemm": _check_gemm,
    "LayerNormalization": _check_layer_normalization,
    "LpNormalization": _check_lp_normalization,
    "MaxPool": _check_max_pool,
    "Pad": _check_pad,
    "Pow": _check_pow,
    "ReduceMax": _check_reduction,
    "ReduceMean": _check_reduction,
    "ReduceMin": _check_reduction,
    "ReduceSum": _check_reduction,
    "Resize linear": _check_resize,
    "Resize nearest": _check_resize,
    "Where": _check_where,
}
"""By operator, the check for limits of all targets."""
_LITERT_LIMITS: Mapping[str, Callable[[Node], str | None]] = {
    "AveragePool": _check_litert_average_pool,
    "Resize linear": _check_litert_resize,
    "Resize nearest": _check_litert_resize,
}
"""By operator, the check for further limits of LiteRT's specification."""
