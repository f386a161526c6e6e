"""A layer as a LiteRT model, run by LiteRT's reference kernels (BUILTIN_REF of ai-edge-litert 2.3.0)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from layers import Layer
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parent.parent / "tests" / "vectors"))
from flatbuffer import litert_model


def build_interpreter(layer: Layer, threads: int) -> Callable[[], NDArray[Any]]:
    """Return a call that runs the layer with its input in place.

    LiteRT has no explicit padding: the input is padded before, outside the measured time.
    """
    x_meaning, w_meaning, y_meaning = layer.qparams
    pads = layer.site.attrs.get("pads", ())
    half = len(pads) // 2
    widths = [(0, 0), *zip(pads[:half], pads[half:], strict=True), (0, 0)]
    x = np.pad(layer.x, widths, constant_values=int(x_meaning.zero_point)) if half else layer.x
    op, attributes, w, axis = _operator(layer)
    units = w_meaning.scale * x_meaning.scale
    none = np.zeros(len(units))
    model = litert_model(
        op,
        attributes,
        [
            _tensor("input", "input", x, x_meaning.scale, x_meaning.zero_point),
            _tensor("filter", "const", w, w_meaning.scale, none) | {"axis": axis},
            _tensor("bias", "const", layer.bias, units, none),
            _tensor("output", "output", layer.run(), y_meaning.scale, y_meaning.zero_point),
        ],
    )
    runner = Interpreter(
        model_content=model,
        num_threads=threads,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], x)
    output = runner.get_output_details()[0]["index"]

    def run() -> NDArray[Any]:
        runner.invoke()
        found: NDArray[Any] = runner.get_tensor(output)
        return found

    return run


def _operator(layer: Layer) -> tuple[str, dict[str, Any], NDArray[Any], int]:
    """Return LiteRT's operator, its attributes, its weights and their channel axis."""
    attrs, w = layer.site.attrs, layer.weights
    if layer.site.op == "Gemm":
        return "FULLY_CONNECTED", {"activation": "NONE"}, w, 0
    down, across = attrs.get("strides", (1, 1))
    window = {"stride_h": down, "stride_w": across, "dilation_h": 1, "dilation_w": 1,
              "padding": "VALID", "activation": "NONE"}  # fmt: skip
    if attrs.get("group", 1) == 1:
        return "CONV_2D", window, w, 0
    window["depth_multiplier"] = len(w) // layer.x.shape[-1]
    return "DEPTHWISE_CONV_2D", window, w.transpose(3, 1, 2, 0), 3


def _tensor(name: str, role: str, value: NDArray[Any], scale: Any, zero: Any) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "value": np.ascontiguousarray(value),
        "scale": np.ravel(scale).astype(float).tolist(),
        "zero": np.ravel(zero).astype(int).tolist(),
    }
