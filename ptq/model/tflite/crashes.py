"""`.tflite` models that would end the process in LiteRT's kernels: they are refused before they are loaded."""

from __future__ import annotations

from typing import Any

from ptq.core.errors import UnsupportedError
from ptq.model.litert_limits import find_comparison_limit, find_sum_limit

_SAFE_SOFTMAX = 511
"""LiteRT's reference SOFTMAX ends the process if the sum of exponentials reaches 512."""


def refuse_crashes(model: Any, schema: Any, *, reference: bool) -> None:
    """Refuse a model that could end the process. LiteRT must have opened it: it checks the positions of tensors.

    Args:
        model: The objects of a file.
        schema: The schema of the file.
        reference: Whether the reference kernels run it.

    Raises:
        UnsupportedError: It could; the text says on which operator.
    """
    if reference:
        _refuse_softmax(model, schema)
    _refuse_scales(model, schema)


def _refuse_softmax(model: Any, schema: Any) -> None:
    """Refuse a model whose SOFTMAX could end the process in the reference kernels."""
    [graph] = model.subgraphs[:1]
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        source = graph.tensors[operator.inputs[0]] if len(operator.inputs) else None
        if (
            code.builtinCode == schema.BuiltinOperator.SOFTMAX
            and source is not None
            and source.type == schema.TensorType.INT8
            and source.shape[-1] > _SAFE_SOFTMAX
        ):
            raise UnsupportedError(
                f"SOFTMAX of {source.shape[-1]} values may end the process in LiteRT's reference kernels "
                "(they stop where the sum of exponentials reaches 512); run the default kernels"
            )


def _refuse_scales(model: Any, schema: Any) -> None:
    """Refuse a model with sums or comparisons of integers on whose scales LiteRT would end the process."""
    codes, [graph] = schema.BuiltinOperator, model.subgraphs[:1]
    sums = codes.ADD, codes.SUB
    compared = codes.EQUAL, codes.GREATER, codes.GREATER_EQUAL, codes.LESS, codes.LESS_EQUAL
    bits = {schema.TensorType.INT8: 8, schema.TensorType.INT16: 16}
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex].builtinCode
        if code not in (*sums, *compared):
            continue
        inputs = [graph.tensors[index] for index in operator.inputs]
        result = graph.tensors[operator.outputs[0]]
        integers = inputs if code in compared else [*inputs, result]
        scales = [_read_scale(tensor) for tensor in integers if tensor.type in bits]
        known = [scale for scale in scales if scale is not None]
        if len(known) < len(integers):
            continue
        if code in compared:
            reason = find_comparison_limit(known)
        else:
            reason = find_sum_limit(known[:-1], known[-1], bits[result.type])
        if reason:
            raise UnsupportedError(f"{result.name.decode()}: {reason}; leave the node in float")


def _read_scale(tensor: Any) -> float | None:
    """The scale of a tensor; None for integers that stand for themselves."""
    scale = None if tensor.quantization is None else tensor.quantization.scale
    return None if scale is None or not len(scale) else float(scale[0])
