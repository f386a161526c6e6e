"""Convolutions and fully connected layers of a quantized network, each with its input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.executor.arithmetics import get_kernels
from ptq.executor.arithmetics.node_site import Kernel, Site
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.weights.layer_weights import view_input_output_matrix

OPS = ("Conv", "Gemm")


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer with constant weights and bias, channels last like the kernels."""

    site: Site
    x: NDArray[Any]
    kernel: Kernel

    def run(self) -> NDArray[Any]:
        """Run the executor's kernel on the input."""
        return self.kernel([self.x, *self.site.constants[1:]])

    @property
    def weights(self) -> NDArray[Any]:
        """Weights with shape O·spatial·I, or (O, K)."""
        w = self.site.constants[1]
        assert w is not None
        return view_input_output_matrix(w, self.site.attrs).T if self.site.op == "Gemm" else w

    @property
    def bias(self) -> NDArray[Any]:
        """Bias with one value per output channel."""
        bias = self.site.constants[2]
        assert bias is not None
        return bias

    @property
    def product(self) -> Callable[[], Any] | None:
        """Return the bare product in float32 by BLAS, with operands in place; None for one channel per group."""
        if self.site.attrs.get("group", 1) != 1:
            return None
        weights = self.weights.reshape(len(self.bias), -1).T.astype(np.float32)
        rows = self.run().size // len(self.bias)
        windows = np.ones((rows, len(weights)), np.float32)
        return lambda: windows @ weights

    @property
    def qparams(self) -> tuple[QuantParams, QuantParams, QuantParams]:
        """Parameters of x, of the weights (per-channel) and of y."""
        x, w, y = self.site.inputs[0], self.site.inputs[1], self.site.outputs[0]
        assert x is not None
        assert w is not None
        assert y is not None
        scale, zero = (np.broadcast_to(a, self.bias.shape) for a in (w.scale, w.zero_point))
        return x, QuantParams(scale, zero, w.qtype, 0), y


def record_layers(quantized: Graph, feed: dict[str, NDArray[Any]], name: str) -> list[Layer]:
    """Run a network in an arithmetic and record its layers, except kinds that LiteRT lacks."""
    found: list[Layer] = []
    kernels = get_kernels(name)

    def recording(site: Site) -> Kernel:
        kernel = kernels[site.op](site)

        def run(inputs: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
            if inputs[0] is not None and _is_comparable(site, inputs[0]):
                found.append(Layer(site, np.ascontiguousarray(inputs[0]), kernel))
            return kernel(inputs)

        return run

    Executor(quantized, name, replaced=dict.fromkeys(OPS, recording)).run(feed)
    return found


def _is_comparable(site: Site, x: NDArray[Any]) -> bool:
    group = site.attrs.get("group", 1)
    return (
        len(site.constants) > 2
        and all(array is not None for array in site.constants[1:3])
        and (site.op == "Gemm" or x.ndim == 4)
        and group in (1, x.shape[-1])
        and all(d == 1 for d in site.attrs.get("dilations", ()))
        and site.attrs.get("auto_pad", "NOTSET") == "NOTSET"
    )
