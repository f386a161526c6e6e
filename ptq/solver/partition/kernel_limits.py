"""What of an operator do the integer kernels of its row not cover?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ptq.core.opspec import OpSpec
from ptq.core.targets import Target
from ptq.kernels.resize import OnnxSampling, ResizeAxis, matching_litert_sampling
from ptq.model.axes import resize_unsupported_reason
from ptq.model.node import Node, attributes_of, constant_of, shape_of

MASK_MAGNITUDE = 1e4
"""A constant of this magnitude beside activations masks them, -1e4, -1e9 or the lowest float: no range holds both."""
_TRIED_LENGTHS = range(1, 257)


def unsupported_reason(node: Node, spec: OpSpec, target: Target) -> str | None:
    """Why the node has no integer kernel though its operator has one; None where it has."""
    found = _LIMITS.get(spec.op)
    return found(node, target) if found is not None else None


def _gemm(node: Node, target: Target) -> str | None:
    attrs = attributes_of(node)
    if any(attrs.get(name, 1.0) != 1.0 for name in ("alpha", "beta")):
        # ONNX Runtime leaves it float in a QDQ graph; its QGemm multiplies C by alpha too
        return "Gemm with alpha or beta has no integer kernel"
    return "Gemm with transA has no integer kernel" if attrs.get("transA") else None


def _pad(node: Node, target: Target) -> str | None:
    mode = attributes_of(node).get("mode", "constant")
    return f"Pad in mode {mode} has no integer kernel" if mode != "constant" else None


def _average_pool(node: Node, target: Target) -> str | None:
    attrs = attributes_of(node)
    if any(d != 1 for d in attrs.get("dilations", ())):
        return "AveragePool with dilations has no integer kernel"
    padded = any(attrs.get("pads", ())) or attrs.get("auto_pad", "NOTSET").startswith("SAME")
    if target.follows_litert_spec and attrs.get("count_include_pad") and padded:
        return "AVERAGE_POOL_2D counts no padding"
    return None


def _max_pool(node: Node, target: Target) -> str | None:
    return "MaxPool with indices has no integer kernel" if len(node.outputs) > 1 else None


def _pow(node: Node, target: Target) -> str | None:
    exponents = [a for a in map(constant_of, node.inputs[1:]) if a is not None]
    if any(a.size != 1 for a in exponents):
        return "Pow with several exponents is no function of one value"
    return None


def _layer_normalization(node: Node, target: Target) -> str | None:
    if len(node.outputs) > 1:
        return "LayerNormalization with its mean as an output has no integer kernel"
    return None


def _lp_normalization(node: Node, target: Target) -> str | None:
    p = attributes_of(node).get("p", 2)
    return f"L2_NORMALIZATION has p = 2, not {p}" if p != 2 else None


def _reduction(node: Node, target: Target) -> str | None:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    named = constant_of(axes)
    none = axes is None or (named is not None and not named.size)
    if attributes_of(node).get("noop_with_empty_axes") and none:
        return "it reduces along no axis"
    return None


def _where(node: Node, target: Target) -> str | None:
    for value in node.inputs[1:]:
        array = constant_of(value)
        if array is not None and array.size and np.abs(array).max() >= MASK_MAGNITUDE:
            largest = float(array.flat[np.abs(array).argmax()])
            return f"its constant {largest:g} masks: 8 bits cannot hold it beside values"
    return None


def _resize(node: Node, target: Target) -> str | None:
    return resize_unsupported_reason(attributes_of(node)) or (
        _litert_resize_problem(node) if target.follows_litert_spec else None
    )


def _litert_resize_problem(node: Node) -> str | None:
    """Why LiteRT has no such Resize: it resizes height and width, from three systems of coordinates."""
    attrs, found = attributes_of(node), _possible_axes(node)
    if found is None:
        return "LiteRT resizes by constant factors, or to constant sizes from known ones"
    batch, depth, *image = found
    if len(image) not in (1, 2) or any(way.size != way.output_size for way in (*batch, *depth)):
        return "LiteRT resizes height and width only"
    linear = attrs.get("mode", "nearest") == "linear"
    coordinates = str(attrs.get("coordinate_transformation_mode", "half_pixel"))
    rounding = str(attrs.get("nearest_mode", "round_prefer_floor"))
    how = OnnxSampling(coordinates, None if linear else rounding)
    # lengths that vary are tried one by one: the factor may suit LiteRT at all of them, or not
    if all(
        matching_litert_sampling(how, pair) for pair in zip(*_repeat_to_longest(image), strict=True)
    ):
        return None
    said = coordinates if linear else f"{coordinates} and {rounding}"
    return f"LiteRT has no Resize with coordinates {said} by these factors"


def _repeat_to_longest(image: list[list[ResizeAxis]]) -> list[list[ResizeAxis]]:
    most = max(len(ways) for ways in image)
    return [ways * most if len(ways) == 1 else ways for ways in image]


def _possible_axes(node: Node) -> list[list[ResizeAxis]] | None:
    """What may become of every axis: one way where its length is known, else several; None where nothing is known."""
    source = node.inputs[0]
    shape = shape_of(source) if source is not None else None
    given = [constant_of(value) for value in (*node.inputs, None, None, None)[2:4]]
    scales, sizes = (None if g is None or not g.size else g.reshape(-1) for g in given)
    if shape is None or (scales is None and sizes is None):
        return None
    named = [int(a) % len(shape) for a in attributes_of(node).get("axes", range(len(shape)))]
    if any(g is not None and g.size != len(named) for g in (scales, sizes)):
        return None
    found: list[list[ResizeAxis]] = [
        [ResizeAxis(n, n, 1.0) for n in (_TRIED_LENGTHS if d is None else (d,))] for d in shape
    ]
    for index, axis in enumerate(named):
        ways = []
        for before in found[axis]:
            if sizes is not None:
                if shape[axis] is None:
                    return None
                out = int(sizes[index])
                ways.append(
                    ResizeAxis(before.size, out, float(np.float32(out) / np.float32(before.size)))
                )
            elif scales is not None:
                factor = np.float32(scales[index])
                ways.append(
                    ResizeAxis(
                        before.size, math.floor(factor * np.float32(before.size)), float(factor)
                    )
                )
        found[axis] = [way for way in ways if way.output_size]
    return found if all(found) else None


_LIMITS: Mapping[str, Callable[[Node, Target], str | None]] = {
    "AveragePool": _average_pool,
    "Gemm": _gemm,
    "LayerNormalization": _layer_normalization,
    "LpNormalization": _lp_normalization,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "Pow": _pow,
    "ReduceMax": _reduction,
    "ReduceMean": _reduction,
    "ReduceMin": _reduction,
    "ReduceSum": _reduction,
    "Resize linear": _resize,
    "Resize nearest": _resize,
    "Where": _where,
}
