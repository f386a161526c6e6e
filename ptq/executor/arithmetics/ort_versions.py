"""What changed in ONNX Runtime's integers between its versions: the table behind ``ort@1.31``.

`ort` and `ort_avx2` hold the newest kernels. Each row of `CHANGES` holds the kernels that an older version has
instead. The recorded vectors of each version (``tests/vectors``) are the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptq.executor.arithmetics import ort_softmax, resize
from ptq.executor.arithmetics.node_site import KernelMaker
from ptq.model.machine.ort_version import INSTALLED, Version

OLDEST: Version = (1, 20)
"""The oldest version whose integers were compared."""
NEWEST: Version = (1, 32)
"""The newest version whose integers were compared. A newer one is taken to compute the same."""


@dataclass(frozen=True, eq=False)
class OrtChange:
    """One change of integers.

    Attributes:
        version: The first version that computes as today.
        what: The change, in one sentence.
        before: Kernel makers of older versions, by operator.
    """

    version: Version
    what: str
    before: Mapping[str, KernelMaker]


CHANGES: tuple[OrtChange, ...] = (
    OrtChange(
        (1, 32),
        "QLinearSoftmax multiplies and divides in float64. Before, float32 overflowed where the output scale is "
        "below 1/(148 D), D the length of the axis, and rounded otherwise in rare cases",
        ort_softmax.OVERFLOWING,
    ),
    OrtChange(
        (1, 29),
        "QLinearSoftmax saturates int8 results. Before, they wrapped modulo 256",
        ort_softmax.WRAPPING,
    ),
    OrtChange(
        (1, 27),
        "Resize to the nearest pixel takes positions within 1e-6 of a half for ties. Before, float32 had to meet the "
        "half exactly, and a neighbouring pixel was copied where it did not",
        resize.EXACT_TIES,
    ),
)
"""Newest first."""


def find_compared_version(version: Version = INSTALLED) -> Version:
    """The version, or the nearest one that was compared."""
    return min(max(version, OLDEST), NEWEST)


def get_kernels_of_version(
    newest: Mapping[str, KernelMaker], version: Version
) -> Mapping[str, KernelMaker]:
    """Kernel makers of a version, from those of the newest."""
    kernels = dict(newest)
    for change in CHANGES:
        if version < change.version:
            kernels.update(change.before)
    return kernels
