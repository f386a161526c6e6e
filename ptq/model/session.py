"""The only door to ONNX Runtime: sessions on the CPU, without telemetry, from bytes and never from a path."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

# read when the library is loaded: since 1.29 its Linux wheels collect usage data otherwise
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx.parser
import onnxruntime
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError, short_message
from ptq.model import external_data
from ptq.model.crash_guard import find_crash_risks
from ptq.model.graph import Graph
from ptq.model.node import Node, name_of, operator_of, values_read_by
from ptq.model.operator_versions import since_version, unsupported_nodes

_NUMPY_KINDS = "biuf"
"""Kinds of numpy's own types; others, such as bfloat16, ONNX Runtime takes as bytes."""
_LOG_FATAL_ONLY = 4  # fatal errors only: what goes wrong is raised, and said once

OPTIMIZATION_LEVELS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

ORT_VERSION: str = onnxruntime.__version__


class Session:
    """A model ready to run."""

    def __init__(
        self,
        graph: Graph,
        *,
        threads: int = 0,
        optimize: str = "all",
        save_optimized: str = "",
        arena: bool = True,
        spin: bool = True,
        lean: bool = False,
        integers: bool = True,
        fused: bool = True,
    ) -> None:
        """Load a graph.

        Args:
            graph: What to run.
            threads: Threads for one operator; 0 is one a core, and no more are started than there are processors.
            optimize: ``none``, ``basic`` or ``all``.
            save_optimized: Write the graph as ONNX Runtime will run it to this path.
            arena: Let ONNX Runtime keep freed memory and grow it in powers of two: faster for small
                tensors, but its peak depends on chance.
            spin: Let its threads wait busily between runs: faster where nothing else wants the cores.
            lean: Of over 2 GB of weights make no copy in the order that kernels read fastest; the last bits of
                results may be others for it.
            integers: Compute in integers what stands between quantizers; without, all is computed in float as it
                stands, nothing else is rounded, and scales may be inputs.
            fused: Let integer kernels take the place of float ones and the quantizers around them.

        Raises:
            ModelError: ONNX Runtime does not take the model, or would end with it.
        """
        self._crash_guard = find_crash_risks(graph)
        options = onnxruntime.SessionOptions()
        # more than there are processors wait for each other: 1,024 on two take minutes for a tiny model
        options.intra_op_num_threads = min(threads, os.cpu_count() or 1)
        options.graph_optimization_level = OPTIMIZATION_LEVELS[optimize]
        options.enable_cpu_mem_arena = arena
        if not spin:
            options.add_session_config_entry("session.force_spinning_stop", "1")
        if not integers:
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        options.log_severity_level = _LOG_FATAL_ONLY
        if save_optimized:
            options.optimized_model_filepath = save_optimized
        try:
            self._session, self._weights = _open_session(graph, options, lean=lean, fused=fused)
        except Exception as error:  # its errors share no base class but this one
            raise ModelError(_explain_load_failure(error, graph)) from error
        self.inputs: tuple[str, ...] = tuple(i.name for i in self._session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once, for all outputs or some.

        Raises:
            DataError: ONNX Runtime refuses the feed, fails on it or would end with it.
        """
        if outputs is not None and not outputs:
            return []  # ONNX Runtime would give all
        self._crash_guard.check_feed(feed)
        try:
            results: list[NDArray[Any]] = self._session.run(outputs, dict(feed))
        except Exception as error:  # as above
            raise DataError(
                f"ONNX Runtime cannot run the sample: {short_message(error)}"
            ) from error
        return results

    def run_into(
        self, feed: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        """Run once and write the outputs into arrays of their types and shapes.

        Raises:
            DataError: ONNX Runtime refuses the feed or an array, fails, or would end.
        """
        self._crash_guard.check_feed(feed)
        try:
            binding = self._session.io_binding()
            for name, array in feed.items():
                binding.bind_cpu_input(name, array)
            for name, array in outputs.items():
                where = array.ctypes.data
                binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, where)
            self._session.run_with_iobinding(binding)
        except Exception as error:  # as above
            raise DataError(
                f"ONNX Runtime cannot run the sample: {short_message(error)}"
            ) from error


_SATURATION_MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
pair (uint8[1, 2] a) => (int32[1, 1] c) <int8[2, 1] b = {127, 127}> { c = MatMulInteger(a, b) }
"""


@cache
def has_exact_int8_sums() -> bool:
    """Whether ONNX Runtime adds products of uint8 and int8 exactly here.

    On x86 without VNNI it adds pairs of them in int16, which saturates (vpmaddubsw): 255·127 + 255·127 is 32767.
    """
    pair = Session(Graph.from_proto(onnx.parser.parse_model(_SATURATION_MODEL)))
    [total] = pair.run({"a": np.full((1, 2), 255, np.uint8)})
    return int(total[0, 0]) == 2 * 255 * 127


_OrtValues = dict[str, onnxruntime.OrtValue]


def _open_session(
    graph: Graph,
    options: onnxruntime.SessionOptions,
    *,
    lean: bool = False,
    fused: bool = True,
) -> tuple[onnxruntime.InferenceSession, _OrtValues]:
    """A session of bytes in memory, and the large weights, which it reads where they lie: they must outlive it."""
    data, files = external_data.as_buffers(graph.model)
    copied: dict[str, external_data.Buffer] = {}
    values: _OrtValues = {}
    for file, (name, tensor) in files.items():
        if tensor.dtype.numpy().kind in _NUMPY_KINDS:
            array = np.ascontiguousarray(tensor.numpy())
            values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        else:
            copied[file] = external_data.little_endian_bytes(tensor)
    options.add_external_initializers(list(values), list(values.values()))
    if lean and external_data.weight_bytes(graph.model) > external_data.MAX_PROTO_BYTES:
        options.add_session_config_entry("session.disable_prepacking", "1")
        for name, value in values.items():
            options.add_initializer(name, value)  # without this they are copied all the same
    options.add_external_initializers_from_files_in_memory(
        list(copied), list(copied.values()), [len(content) for content in copied.values()]
    )
    if files and options.optimized_model_filepath:
        beside = f"{os.path.basename(options.optimized_model_filepath)}.data"
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", beside
        )
    session = onnxruntime.InferenceSession(
        data,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=[] if fused else ["QDQSelectorActionTransformer"],
    )
    return session, values


def _explain_load_failure(error: Exception, graph: Graph) -> str:
    """Why a model does not load: what ONNX Runtime says, and of which node, where it does not say that."""
    for unknown in unsupported_nodes(external_data.proto_without_weights(graph.model)[0]):
        return (
            f"ONNX Runtime {ORT_VERSION} does not know {unknown.op_type} as opset "
            f"{since_version(unknown, graph.opset)} has it (node {unknown.name}); export an older opset"
        )
    text = short_message(error)
    known = {str(node.name) for node in graph.nodes} | {f"({node.op_type})" for node in graph.nodes}
    if not any(name in text for name in known):
        node = _first_unloadable_node(graph)
        text = f"node {node.name} ({operator_of(node)}): {text}" if node is not None else text
    return f"ONNX Runtime cannot load the model: {text}"


def _first_unloadable_node(graph: Graph) -> Node | None:
    """The node with which a model ceases to load, where it is one of the main graph."""
    nodes = graph.nodes
    loads, fails = 0, len(nodes)
    while nodes and fails - loads > 1:
        middle = (loads + fails) // 2
        if _can_load(graph, nodes[:middle]):
            loads = middle
        else:
            fails = middle
    return nodes[fails - 1] if nodes and not _can_load(graph, nodes[:fails]) else None


def _can_load(graph: Graph, nodes: list[Node]) -> bool:
    """Whether the first nodes of a model load, all that they compute being outputs."""
    read = {v for node in nodes for v in values_read_by(node)}
    inputs = [name_of(v) for v in graph.inputs if v in read]
    part = graph.extract(nodes, inputs, [v.name for n in nodes for v in n.outputs if v.name])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _LOG_FATAL_ONLY
    try:
        _open_session(part, options)
    except Exception:  # ONNX Runtime's errors share no base class but this one
        return False
    return True


def library_versions() -> dict[str, str]:
    """Versions of what produced floats and integers may depend on."""
    import numpy
    import onnx

    return {"onnxruntime": ORT_VERSION, "onnx": onnx.__version__, "numpy": numpy.__version__}
