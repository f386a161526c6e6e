"""Inputs and outputs of a `.tflite` file that it stores in another order of axes than the ONNX model: a line each."""

from __future__ import annotations

import numpy as np

from ptq.model.tflite.parsed import ParsedModel, parse_tflite


def describe_orders(content: bytes) -> tuple[str, ...]:
    """How arrays of the ONNX model are fed to a file and read from it; empty where the axes are the same.

    Raises:
        ModelError: The bytes are no `.tflite` file, or a damaged one.
    """
    model = parse_tflite(content)
    lines = []
    for name, number in model.inputs.items():
        if (order := _find_other_order(model, name)) is not None:
            shape = _describe_shape(model, number)
            lines.append(f"input {name} is stored as {shape}: transpose your arrays by {order}")
    for name, number in model.outputs.items():
        if (order := _find_other_order(model, name)) is not None:
            back = tuple(map(int, np.argsort(order)))
            shape = _describe_shape(model, number)
            lines.append(f"output {name} is stored as {shape}: transpose it back by {back}")
    return tuple(lines)


def _find_other_order(model: ParsedModel, name: str) -> tuple[int, ...] | None:
    order = model.orders.get(name)
    return None if order is None or order == tuple(sorted(order)) else order


def _describe_shape(model: ParsedModel, number: int) -> str:
    signature = model.tensors[number].signature
    return " × ".join("N" if length == -1 else str(length) for length in signature)
