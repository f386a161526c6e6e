"""Settings of an ONNX Runtime session."""

from __future__ import annotations

from dataclasses import dataclass


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
        qdq_optimization: ONNX Runtime optimizes quantizers at all. Without it, every operator computes in float,
            no tensor is rounded except by its quantizer, and scales may be model inputs.
        given_order: Nodes run in about the order of the graph, not all weights' DequantizeLinear nodes first.
    """

    memory_arena: bool = True
    busy_wait: bool = True
    copy_large_weights: bool = True
    copy_single_rows: bool = True
    integer_kernels: bool = True
    qdq_optimization: bool = True
    given_order: bool = False


DEFAULT_TUNING = SessionTuning()
