"""ONNX Runtime session of a graph: the only module that runs a model with it, but for the probe of `exact_sums`.

Sessions run on the CPU, without telemetry, from bytes in memory and never from a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import onnxruntime
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError, shorten_message
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import ORT_VERSION
from ptq.model.node import Node, get_name, get_operator, list_values_read
from ptq.model.proto import external_data
from ptq.model.proto.mapped_weight import release_mapped_pages
from ptq.model.proto.operator_versions import find_unsupported_nodes, get_since_version
from ptq.model.qdq.wide_activations import has_16_bit_activations
from ptq.model.session.crash_guard import find_crash_risks
from ptq.model.session.custom_ops import explain_custom_operator
from ptq.model.session.exact_sums import needs_exact_sums, split_shared_integers
from ptq.model.session.ort_value import as_ort_value
from ptq.model.session.session_tuning import (
    DEFAULT_TUNING,
    LOG_FATAL_ONLY,
    SessionTuning,
    make_session_options,
)
from ptq.model.session.single_row_weights import has_single_row_weights

_COPY_LIMIT = 2**29
"""Bytes of weights up to which every session has its own copy."""

OutputMemory: TypeAlias = onnxruntime.IOBinding
"""Arrays that a session writes its outputs into."""


class Session:
    """A model loaded into ONNX Runtime, ready to run.

    Attributes:
        inputs: Names of the model's inputs.
        outputs: Names of the model's outputs.
        threads: Threads of one operator; 0 means one a core.
        computes_as_written: Whether it rounds or adds as the file says, where a user's own session does not.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        threads: int = 0,
        optimize: str = "all",
        save_optimized: str = "",
        tuning: SessionTuning = DEFAULT_TUNING,
    ) -> None:
        """Load a graph with ONNX Runtime's default settings; but no 16-bit activation is rounded to 8 bits.

        Args:
            graph: The model.
            threads: Threads of one operator; 0 means one a core. At most one a processor is started.
            optimize: Level of graph optimization: ``none``, ``basic`` or ``all``.
            save_optimized: Path to which ONNX Runtime writes its optimized graph; empty for none.
            tuning: Settings of the named constructors.

        Raises:
            ModelError: ONNX Runtime refuses the model, or the model would crash it.
        """
        self.threads, self._crash_guard = threads, find_crash_risks(graph)
        wide = not tuning.own_rounding and has_16_bit_activations(graph)
        can_saturate = not tuning.own_rounding and needs_exact_sums(graph)
        for exact in (True, False) if can_saturate else (False,):
            self.computes_as_written = wide or exact
            options = make_session_options(
                tuning, threads=threads, optimize=optimize, keeps_16_bits=wide, adds_exactly=exact
            )
            if save_optimized:
                options.optimized_model_filepath = save_optimized
            try:
                loaded = split_shared_integers(graph) if exact else graph
                self._session, self._weights = _open_session(loaded, options, tuning)
                break
            except Exception as error:  # ONNX Runtime's errors have no narrower common base class
                # products of int8 activations, for which it has no other kernel, are added exactly anyway
                if not exact:
                    raise ModelError(_explain_load_failure(error, graph)) from error
        self.inputs: tuple[str, ...] = tuple(i.name for i in self._session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())

    @classmethod
    def for_calibration(cls, graph: Graph, *, threads: int, memory_arena: bool = False) -> Session:
        """Session that returns many inner tensors: the cores free between runs, low peak memory without an arena."""
        tuning = SessionTuning(
            memory_arena=memory_arena,
            busy_wait=False,
            copy_single_rows=not has_single_row_weights(graph),
        )
        return cls(graph, threads=threads, tuning=tuning)

    @classmethod
    def for_reference(
        cls, graph: Graph, *, single_rows: bool | None = None, threads: int = 0
    ) -> Session:
        """Session of the float model that others are compared with: no copy of weights above `_COPY_LIMIT`.

        Args:
            graph: The model.
            single_rows: `has_single_row_weights` of the model with all its shapes; None to ask the model as it is.
            threads: Threads of one operator; 0 means one a core.
        """
        single_rows = has_single_row_weights(graph) if single_rows is None else single_rows
        tuning = SessionTuning(copy_large_weights=False, copy_single_rows=not single_rows)
        return cls(graph, threads=threads, tuning=tuning)

    @classmethod
    def for_check(cls, graph: Graph, *, threads: int = 0, optimize: str = "all") -> Session:
        """Session for a few samples: freed memory goes back to the system, the cores are free between runs."""
        tuning = SessionTuning(memory_arena=False, busy_wait=False, given_order=True)
        return cls(graph, threads=threads, optimize=optimize, tuning=tuning)

    @classmethod
    def for_timing(cls, graph: Graph, *, threads: int, opened: Session | None = None) -> Session:
        """Session with the settings of a user's own; ``opened``, of the same graph, if it has them."""
        if opened is not None and not opened.computes_as_written:
            return opened
        return cls(graph, threads=threads, tuning=SessionTuning(own_rounding=True))

    @classmethod
    def for_range_search(cls, graph: Graph, *, threads: int = 0) -> Session:
        """Session that simulates quantization in float; scales are inputs. The cores are free between runs."""
        tuning = SessionTuning(copy_large_weights=False, busy_wait=False, qdq_optimization=False)
        return cls(graph, threads=threads, tuning=tuning)

    @classmethod
    def for_float_island(cls, graph: Graph, *, threads: int, moves: bool) -> Session:
        """Session of float nodes between integer steps: no integer kernels, and the cores free between runs."""
        tuning = SessionTuning(integer_kernels=False, busy_wait=False, moves_transposes=moves)
        return cls(graph, threads=threads, tuning=tuning)

    def output_types(self) -> dict[str, tuple[str, list[int | str | None]]]:
        """Type of each output as ONNX Runtime writes it, ``tensor(float)``, and its axes: lengths, names or None.

        There are no axes for a scalar, and where the rank is unknown.
        """
        return {o.name: (o.type, o.shape) for o in self._session.get_outputs()}

    def run(
        self, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Run once and return all outputs, or the named ones.

        Raises:
            DataError: ONNX Runtime refuses the feed or fails on it, or the feed would crash it.
        """
        if outputs is not None and not outputs:
            return []  # ONNX Runtime would return all outputs
        self._crash_guard.check_feed(feed)
        with _explain_failure():
            results: list[NDArray[Any]] = self._session.run(outputs, dict(feed))
        return results

    def bind(self, outputs: Mapping[str, NDArray[Any]]) -> OutputMemory:
        """The arrays, which must have the types and shapes of outputs, in the form that `run_into` takes.

        Binding takes longer than a run of a small model; the arrays must outlive it.

        Raises:
            DataError: ONNX Runtime refuses an array.
        """
        with _explain_failure():
            memory = self._session.io_binding()
            for name, array in outputs.items():
                target = array.dtype.type, array.shape, array.ctypes.data
                memory.bind_output(name, "cpu", 0, *target)
        return memory

    def run_into(self, feed: Mapping[str, NDArray[Any]], memory: OutputMemory) -> None:
        """Run once and write outputs into bound arrays.

        Raises:
            DataError: ONNX Runtime refuses the feed or an array or fails, or the feed would crash it.
        """
        self._crash_guard.check_feed(feed)
        with _explain_failure():
            for name, array in feed.items():
                memory.bind_cpu_input(name, array)
            self._session.run_with_iobinding(memory)


@contextmanager
def _explain_failure() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # ONNX Runtime's errors have no narrower common base class
        raise DataError(f"ONNX Runtime cannot run the sample: {shorten_message(error)}") from error


_OrtValues = dict[str, onnxruntime.OrtValue]
_READS_FILES_IN_MEMORY = hasattr(
    onnxruntime.SessionOptions, "add_external_initializers_from_files_in_memory"
)
"""ONNX Runtime before 1.24 takes weights of less than a byte in the model's message only."""


def _open_session(
    graph: Graph, options: onnxruntime.SessionOptions, tuning: SessionTuning
) -> tuple[onnxruntime.InferenceSession, _OrtValues]:
    """A session opened from bytes in memory, and the large weights that it reads in place: they must outlive it."""
    data, files = external_data.as_buffers(graph.model, sub_byte=_READS_FILES_IN_MEMORY)
    copied, values = dict[str, external_data.Buffer](), _OrtValues()
    for file, (name, tensor) in files.items():
        if tensor.dtype.bitwidth < 8:
            copied[file] = external_data.to_little_endian_bytes(tensor)
        else:
            values[name] = as_ort_value(tensor)
    options.add_external_initializers(list(values), list(values.values()))
    in_place = (
        not tuning.copy_large_weights
        and external_data.count_weight_bytes(graph.model) > _COPY_LIMIT
    )
    if in_place or not tuning.copy_single_rows:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if in_place:
        for name, value in values.items():  # otherwise ONNX Runtime still copies them
            options.add_initializer(name, value)
    if copied:
        options.add_external_initializers_from_files_in_memory(
            list(copied), list(copied.values()), [len(content) for content in copied.values()]
        )
    if files and options.optimized_model_filepath:
        weight_file = f"{os.path.basename(options.optimized_model_filepath)}.data"
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", weight_file
        )
    release_mapped_pages()  # the session's copies take their place
    session = onnxruntime.InferenceSession(
        data,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=tuning.disabled_optimizers(),
    )
    release_mapped_pages()
    return session, values


def _explain_load_failure(error: Exception, graph: Graph) -> str:
    """Message for a model that does not load: ONNX Runtime's text, with the node's name added if it is missing."""
    for unknown in find_unsupported_nodes(external_data.detach_weights(graph.model)[0]):
        return (
            f"ONNX Runtime {ORT_VERSION} does not know {unknown.op_type} of opset "
            f"{get_since_version(unknown, graph.opset)} (node {unknown.name}); export an older opset"
        )
    if (custom := explain_custom_operator(str(error), graph)) is not None:
        return custom
    text = shorten_message(error)
    names = {str(node.name) for node in graph.nodes} | {f"({node.op_type})" for node in graph.nodes}
    if not any(name in text for name in names):
        node = _find_unloadable_node(graph)
        text = f"node {node.name} ({get_operator(node)}): {text}" if node is not None else text
    return f"ONNX Runtime cannot load the model: {text}"


def _find_unloadable_node(graph: Graph) -> Node | None:
    """First node of the main graph with which the model no longer loads; None if there is none."""
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
    """Whether a model of these first nodes loads, with every tensor that they compute as an output."""
    read = {v for node in nodes for v in list_values_read(node)}
    inputs = [get_name(v) for v in graph.inputs if v in read]
    prefix = graph.extract(nodes, inputs, [v.name for n in nodes for v in n.outputs if v.name])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = LOG_FATAL_ONLY
    try:
        _open_session(prefix, options, DEFAULT_TUNING)
    except Exception:  # ONNX Runtime's errors have no narrower common base class
        return False
    return True


def list_library_versions() -> dict[str, str]:
    """Versions of the libraries that results may depend on, by library name."""
    import numpy
    import onnx

    return {"onnxruntime": ORT_VERSION, "onnx": onnx.__version__, "numpy": numpy.__version__}
