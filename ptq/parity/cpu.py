"""What this processor does with 8-bit products."""

from __future__ import annotations

import platform
from pathlib import Path


def sums_exactly() -> bool | None:
    """Whether products of uint8 and int8 are summed without int16 saturation; None where nobody tells.

    Without VNNI, x86 processors add pairs of products in saturating int16 (vpmaddubsw).
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return None
    return bool(words & {"avx512_vnni", "avx_vnni", "avxvnni"})
