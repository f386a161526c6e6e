"""Has ONNX Runtime add products exactly wherever tests run, for what they compare integers with.

On x86 without VNNI that takes a session option, and graph optimizations on. Tests of what happens without it say so
themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx
import onnxruntime
import pytest

from ptq.model.machine.ort_version import INSTALLED
from ptq.model.session.exact_sums import has_exact_int8_sums

EXACT_NATIVELY = has_exact_int8_sums()
"""Whether this processor needs no option."""

requires_native_exact_sums = pytest.mark.skipif(
    not EXACT_NATIVELY, reason="the option for exact sums changes what ONNX Runtime fuses here"
)

_SHARED_CONSTANT = ("Attempt to replace the existing tensor", "Initializer with same name exists")
"""What ONNX Runtime 1.31 and 1.20 say where it turns a constant to uint8 twice."""

_original_init = onnxruntime.InferenceSession.__init__


def enable_exact_sums() -> None:
    """Set the option in every session from now on."""
    if not EXACT_NATIVELY:
        onnxruntime.InferenceSession.__init__ = _init_session
        has_exact_int8_sums.cache_clear()


@contextmanager
def use_native_sums() -> Iterator[None]:
    """ONNX Runtime as other processes have it, without the option."""
    with_option = onnxruntime.InferenceSession.__init__
    onnxruntime.InferenceSession.__init__ = _original_init
    has_exact_int8_sums.cache_clear()
    try:
        yield
    finally:
        onnxruntime.InferenceSession.__init__ = with_option
        has_exact_int8_sums.cache_clear()


def _init_session(
    self: Any, model: Any, sess_options: Any = None, providers: Any = None, **named: Any
) -> None:
    options = onnxruntime.SessionOptions() if sess_options is None else sess_options
    if INSTALLED < (1, 31) and isinstance(model, bytes) and b"MatMulInteger" in model:
        model = _add_zero_points(model)
    failed = ""
    while True:
        # int8 activations have no kernel beside uint8 weights; their products are added exactly anyway
        plain = "Failed to find kernel" in failed
        options.add_session_config_entry("session.x64quantprecision", "01"[not plain])
        try:
            return _original_init(self, model, options, providers, **named)
        except Exception as error:
            if plain or str(error) == failed:
                raise
            failed = str(error)
            if any(message in failed for message in _SHARED_CONSTANT):
                model = _copy_shared_constants(model)
            elif "Failed to find kernel" not in failed:
                raise


def _add_zero_points(model: bytes) -> bytes:
    """The model with both zero points of each MatMulInteger: without them ONNX Runtime 1.20 aborts."""
    proto = onnx.load_from_string(model)
    types = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "MatMulInteger":
            for place in range(len(node.input), 4):
                kind = types.get(node.input[place - 2], onnx.TensorProto.UINT8)
                zero = onnx.helper.make_tensor(f"{node.output[0]}/zero/{place}", kind, (), [0])
                proto.graph.initializer.append(zero)
                node.input.append(zero.name)
    return proto.SerializeToString()


def _copy_shared_constants(model: bytes) -> bytes:
    """The model with a copy of a constant for each of its readers: ONNX Runtime turns one to uint8 twice."""
    proto = onnx.load_from_string(model)
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    for number, node in enumerate(proto.graph.node):
        for place, name in enumerate(node.input):
            if name in constants:
                node.input[place] = f"{name}/{number}/{place}"
                copy = proto.graph.initializer.add()
                copy.CopyFrom(constants[name])
                copy.name = node.input[place]
    return proto.SerializeToString()
