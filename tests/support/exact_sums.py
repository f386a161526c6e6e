"""Has ONNX Runtime add products exactly wherever tests run, for what they compare integers with.

On x86 without VNNI that takes a session option, and graph optimizations on. Tests of what happens without it say so
themselves.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnxruntime

from ptq.session import sums_exactly

BY_ITSELF = sums_exactly()
"""Whether this processor needs no option."""

_start = onnxruntime.InferenceSession.__init__


def everywhere() -> None:
    """Set the option in every session from now on."""
    if not BY_ITSELF:
        onnxruntime.InferenceSession.__init__ = _started
        sums_exactly.cache_clear()


def _started(
    self: Any, model: Any, sess_options: Any = None, providers: Any = None, **named: Any
) -> None:
    options = onnxruntime.SessionOptions() if sess_options is None else sess_options
    exact = "1"
    while True:
        options.add_session_config_entry("session.x64quantprecision", exact)
        try:
            return _start(self, model, options, providers, **named)
        except Exception as error:
            if "Attempt to replace the existing tensor" in str(error):
                model = _unshared(model)
            elif "Failed to find kernel" in str(error) and exact == "1":
                exact = "0"  # beside int8 activations, whose products are added exactly anyway
            else:
                raise


def _unshared(model: bytes) -> bytes:
    """The model with a copy of a constant for each of its readers: ONNX Runtime 1.31.1 turns one to uint8 twice."""
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
