"""A model in OpenVINO on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError, shorten_message
from ptq.core.ops import LINEAR_OPS
from ptq.executor.runtimes.runtime import Placement
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_node_name, get_operator
from ptq.model.qdq.qdq_units import find_quantized_source

_INTEGERS = ("u8", "i8")


class OpenVinoModel:
    """A model that OpenVINO compiled. Its shapes stay as the file has them."""

    fixed_batch = False

    def __init__(self, graph: Graph, *, threads: int = 0) -> None:
        """Compile the model.

        Args:
            graph: The model.
            threads: Threads; 0 leaves the number to OpenVINO.

        Raises:
            ModelError: OpenVINO refuses the model.
        """
        openvino = import_module("openvino")
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        core = openvino.Core()
        try:
            self._compiled = core.compile_model(core.read_model(graph.to_bytes()), "CPU", settings)
        except RuntimeError as error:
            raise ModelError(f"OpenVINO cannot load the model: {shorten_message(error)}") from error
        self._nodes = [(get_node_name(node), get_operator(node)) for node in graph.nodes]
        self._quantized = {
            get_node_name(node)
            for node in graph.nodes
            if node.inputs and all(find_quantized_source(value) for value in node.inputs[:2])
        }
        self.inputs = tuple(get_name(value) for value in graph.inputs)
        self.outputs = tuple(get_name(value) for value in graph.outputs)

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once and return all outputs, or the named ones.

        Raises:
            DataError: OpenVINO fails on the feed.
        """
        try:
            found = self._compiled({name: np.ascontiguousarray(feed[name]) for name in self.inputs})
        except (RuntimeError, KeyError) as error:
            raise DataError(f"OpenVINO cannot run the sample: {shorten_message(error)}") from error
        arrays = {name: found[at] for at, name in enumerate(self.outputs)}
        return [np.array(arrays[name]) for name in outputs or self.outputs]

    def placement(self) -> tuple[Placement, ...]:
        """Each product, and whether OpenVINO computes it on integers, or why not; others are fused or float."""
        precision: dict[str, str] = {}
        for op in self._compiled.get_runtime_model().get_ops():
            info = op.get_rt_info()
            if "runtimePrecision" not in info or "originalLayersNames" not in info:
                continue
            found = info["runtimePrecision"].astype(str)
            for part in str(info["originalLayersNames"].astype(str)).split(","):
                name = part.removesuffix("/DequantizationMultiply")
                # a product whose factors follow it bears their name only
                if name == part or name not in precision:
                    precision[name.partition("/WithoutBiases")[0]] = found
        products = [
            (name, op) for name, op in self._nodes if op in LINEAR_OPS and name in precision
        ]
        return tuple(
            Placement(
                name,
                op,
                "integers" if precision[name] in _INTEGERS else "floats",
                precision[name] in _INTEGERS,
                "" if precision[name] in _INTEGERS else self._why_float(name),
            )
            for name, op in products
        )

    def _why_float(self, node: str) -> str:
        if node in self._quantized:
            return "OpenVINO has no kernel on integers for it"
        return "the file has no quantizers before it"
