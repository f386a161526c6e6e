"""Random operands, and ONNX Runtime's output of the one-node model that takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ptq.core.types import INT8, UINT8, QuantParams

Array = Any
ELEMENT_TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}


def onnxruntime_output(
    op: str, domain: str, names: list[str], arrays: dict[str, Array], fed: list[str], **attrs: Any
) -> Array:
    """The output of a one-node model; inputs that are not fed are initializers."""
    node = helper.make_node(op, names, ["y"], domain=domain, **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(n, ELEMENT_TYPES[arrays[n].dtype.name], arrays[n].shape)
            for n in fed
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in fed],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {n: arrays[n] for n in fed})[0]


class RandomOperands:
    """Random operands of one seed: every third seed has power-of-two scales, whose sums tie."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.qtype = (UINT8, INT8)[seed % 2]
        self.ties = seed % 3 == 0

    def scale(self, low: float = 0.002, high: float = 0.1) -> Array:
        if self.ties:
            return np.float32(2.0 ** self.rng.integers(-8, -3))
        return np.float32(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def params(self, scale: Array | None = None) -> QuantParams:
        zero = self.rng.choice(
            [self.qtype.lo, self.qtype.hi, self.rng.integers(self.qtype.lo, self.qtype.hi)]
        )
        return QuantParams(self.scale() if scale is None else scale, zero, self.qtype)

    def values(self, *shape: int) -> Array:
        q = self.rng.integers(self.qtype.lo, self.qtype.hi + 1, shape)
        return q.astype(self.qtype.dtype)

    def weights(self, *shape: int) -> Array:
        """At most 64 in magnitude: without VNNI, larger products saturate in pairs."""
        return self.rng.integers(-64, 65, shape).astype(np.int8)

    def weight_params(self, channels: int, axis: int) -> QuantParams:
        if self.rng.integers(2):
            return QuantParams(self.scale(), 0, INT8)
        scale = np.array([self.scale() for _ in range(channels)], np.float32)
        return QuantParams(scale, np.zeros(channels, np.int64), INT8, axis)

    def size(self, high: int = 6) -> int:
        return int(self.rng.integers(1, high))


def quantized_inputs(name: str, q: Array, params: QuantParams) -> dict[str, Array]:
    """A value with its scale and zero point, in the order of a QLinear node's inputs."""
    return {name: q, **qparam_inputs(name, params)}


def qparam_inputs(name: str, params: QuantParams) -> dict[str, Array]:
    return {
        f"{name}_scale": params.scale,
        f"{name}_zero": params.zero_point.astype(params.qtype.dtype),
    }


def assert_same_integers(ours: Array, theirs: Array) -> None:
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)
