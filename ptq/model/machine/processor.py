"""The kind of this processor, as far as it chooses the kernels of ONNX Runtime."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Other names of the same instruction set."""
_FEATURES = frozenset(
    """
    avx avx2 fma avx512f avx512bw avx512_bf16 avx512_vnni avx_vnni amx_int8 amx_bf16
    asimd asimddp asimdhp bf16 i8mm sve sve2
    """.split()  # noqa: SIM905 # easier to read and to extend
)
"""Features that ONNX Runtime asks for, by their names in Linux."""


def name_machine() -> str:
    """Name of the instruction set, ``x86_64`` or ``aarch64``; others as the system calls them."""
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)


@cache
def list_features() -> tuple[str, ...]:
    """Features of the processor that kernels depend on, sorted; empty where the system has no /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    words = (
        words
        for name, _, words in (line.partition(":") for line in lines)
        if name.strip().lower() in ("flags", "features")
    )
    return tuple(sorted(_FEATURES.intersection(next(words, "").split())))
