"""Settings of an ONNX Runtime session."""

from __future__ import annotations

import os
from dataclasses import dataclass

import onnxruntime

LOG_FATAL_ONLY = 4
"""Log level: fatal errors only. Each error is raised, so a log line would repeat it."""

OPTIMIZATION_LEVELS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

_MATMULNBITS_IN_FLOAT32 = "1"
"""Accuracy level of MatMulNBits at which it rounds no activation; ONNX Runtime's default is 4, int8."""
_TRANSPOSE_OPTIMIZERS = ("TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider")


@dataclass(frozen=True)
class SessionTuning:
    """Settings that the named constructors of `Session` change.

    Attributes:
        memory_arena: ONNX Runtime keeps freed memory and grows it in powers of two. This is faster for small
            tensors, but the peak varies. Without it each tensor is a block, which the heap keeps up to 32 MB.
        busy_wait: Threads wait busily between runs. This is faster if no other work needs the cores.
        copy_large_weights: ONNX Runtime copies weights into the order that its kernels read fastest. Without it,
            weights above 512 MB are not copied; the last bits of results may then differ.
        copy_single_rows: It copies matrices that multiply one row, too (`has_single_row_weights`).
        integer_kernels: Integer kernels replace quantizer-operator-quantizer patterns.
        moves_transposes: ONNX Runtime moves transpositions past other operators. It then rounds a float output that a
            quantizer reads too, if one is between them.
        qdq_optimization: ONNX Runtime optimizes quantizers at all. Without it, every operator computes in float,
            no tensor is rounded except by its quantizer, and scales may be model inputs.
        given_order: Nodes run in about the order of the graph, not all weights' DequantizeLinear nodes first.
        own_rounding: Products may be rounded and added as in a user's own session: 16-bit activations rounded to 8
            bits, and sums of two products saturated.
    """

    memory_arena: bool = True
    busy_wait: bool = True
    copy_large_weights: bool = True
    copy_single_rows: bool = True
    integer_kernels: bool = True
    moves_transposes: bool = True
    qdq_optimization: bool = True
    given_order: bool = False
    own_rounding: bool = False

    def disabled_optimizers(self) -> list[str]:
        """ONNX Runtime's names of the optimizers that a session goes without."""
        integers = [] if self.integer_kernels else ["QDQSelectorActionTransformer"]
        return [*integers, *(() if self.moves_transposes else _TRANSPOSE_OPTIMIZERS)]


DEFAULT_TUNING = SessionTuning()


def make_session_options(
    tuning: SessionTuning, *, threads: int, optimize: str, keeps_16_bits: bool, adds_exactly: bool
) -> onnxruntime.SessionOptions:
    """The options of a session in ONNX Runtime's form.

    Args:
        tuning: The settings.
        threads: Threads of one operator; 0 means one a core. At most one a processor is started.
        optimize: Level of graph optimization: ``none``, ``basic`` or ``all``.
        keeps_16_bits: Whether products take activations as they are quantized, not rounded to 8 bits.
        adds_exactly: Whether x86 without VNNI adds products exactly, which takes up to twice the time.
    """
    options = onnxruntime.SessionOptions()
    # More threads than processors wait for each other: 1,024 on two take minutes for a tiny model.
    options.intra_op_num_threads = min(threads, os.cpu_count() or 1)
    options.graph_optimization_level = OPTIMIZATION_LEVELS[optimize]
    options.enable_cpu_mem_arena = tuning.memory_arena
    options.enable_mem_pattern = tuning.memory_arena
    # in the arena, which grows in powers of two, weights would take up to twice their size
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    if tuning.given_order:
        options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    if not tuning.busy_wait:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if not tuning.qdq_optimization:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if keeps_16_bits:
        options.add_session_config_entry(
            "session.qdq_matmulnbits_accuracy_level", _MATMULNBITS_IN_FLOAT32
        )
    if adds_exactly:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = LOG_FATAL_ONLY
    return options
