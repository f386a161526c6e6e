"""Inputs and outputs of a `.tflite` file: float, or integers and halves without the quantizers at the border."""

from __future__ import annotations

from ptq.core.errors import UnsupportedError
from ptq.core.types import FLOAT16, FLOAT32
from ptq.rewrite.tflite.emitter import Emitter, Stored
from ptq.rewrite.tflite.operations import Operation, OperationList
from ptq.rewrite.tflite.orders import Order, order_channels_last, order_naturally, permute_shape


def map_integer_borders(listed: OperationList) -> tuple[dict[str, str], dict[str, str]]:
    """Inputs and outputs with the integers that stand for them.

    Returns:
        By float input the integers to which it is quantized, and by float output those from which it comes.

    Raises:
        UnsupportedError: A float input or output is not quantized, or an input is quantized in two ways.
    """
    inputs, outputs = {}, {}
    for name in listed.inputs:
        readers = [o for o in listed.operations if name in o.inputs]
        kinds = {o.op for o in readers}
        if kinds == {"QuantizeLinear"} and len(readers) == 1:
            inputs[name] = readers[0].outputs[0]
        elif "QuantizeLinear" in kinds:
            raise UnsupportedError(
                f"input {name} is read by float operators too, so it cannot be int8; leave it float"
            )
    for o in listed.operations:
        if o.op == "DequantizeLinear" and o.outputs[0] in listed.outputs:
            outputs[o.outputs[0]] = str(o.inputs[0])
    return inputs, outputs


def without_quantizers(
    listed: OperationList, inputs: dict[str, str], outputs: dict[str, str]
) -> list[Operation]:
    """The operators without the quantizers of inputs and outputs."""
    read = {name for o in listed.operations for name in o.inputs}
    made = {*inputs.values(), *(name for name in outputs if name not in read)}
    return [o for o in listed.operations if made.isdisjoint(o.outputs)]


def write_float16_input(e: Emitter, name: str, *, is_image: bool) -> int:
    """An input of float16, and the DEQUANTIZE to float32 behind it."""
    order = order_channels_last(e.rank(name)) if is_image else order_naturally(e.rank(name))
    shape, signature = (permute_shape(s, order) for s in (e.shape(name), e.signature(name)))
    half = e.temporary(name, shape, FLOAT16, signature=signature)
    real = e.temporary(f"{name}_float32", shape, FLOAT32, signature=signature)
    e.op("DEQUANTIZE", [half], [real], "DequantizeOptions")
    e.store(name, Stored(real, order))
    return half


def write_float16_output(e: Emitter, name: str, order: Order) -> int:
    """A CAST of an output to float16, in an order."""
    shape, signature = (permute_shape(s, order) for s in (e.shape(name), e.signature(name)))
    half = e.temporary(f"{name}_float16", shape, FLOAT16, signature=signature)
    e.op("CAST", [e.read(name, order)], [half], "CastOptions")
    return half
