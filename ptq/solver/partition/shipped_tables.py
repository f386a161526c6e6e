"""The tables of times that ptq ships, and which of them serves a processor and a version of ONNX Runtime.

Without a table of the same kind of processor and the same minor version the nearest one serves: first one of the same
instruction set, then of the same kind of processor, then of the nearest version. The report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptq.core.target import Target
from ptq.model.machine.ort_version import ORT_VERSION, parse_version
from ptq.model.machine.processor import list_features, name_machine
from ptq.solver.partition.cost_table import (
    ORT_1_31_AVX512_VNNI,
    ORT_1_32_AVX512_VNNI,
    OrtCostTable,
    get_given_cost_table,
)


@dataclass(frozen=True)
class ProcessorKind:
    """What chooses the kernels of ONNX Runtime.

    Attributes:
        machine: Instruction set, ``x86_64`` or ``aarch64``.
        width: Widest float vectors: ``avx512``, ``avx2`` or empty.
        exact_sums: Whether products of bytes are summed by one instruction (VNNI, or dot products of ARM).
    """

    machine: str
    width: str = ""
    exact_sums: bool = False

    def __str__(self) -> str:
        width = f" with {self.width.upper()}" if self.width else ""
        sums = "VNNI" if self.machine == "x86_64" else "dot products"
        return f"{self.machine}{width}{' and' if width else ' with'} {'' if self.exact_sums else 'no '}{sums}"


@dataclass(frozen=True)
class ShippedTable:
    """A table, and what it was measured on.

    Attributes:
        table: The times.
        kind: The processor.
    """

    table: OrtCostTable
    kind: ProcessorKind


_AVX512_VNNI = ProcessorKind("x86_64", "avx512", exact_sums=True)
SHIPPED: Sequence[ShippedTable] = (
    ShippedTable(ORT_1_31_AVX512_VNNI, _AVX512_VNNI),
    ShippedTable(ORT_1_32_AVX512_VNNI, _AVX512_VNNI),
)


def describe_this_processor() -> ProcessorKind:
    """The kind of this machine's processor."""
    found = set(list_features())
    width = "avx512" if "avx512f" in found else "avx2" if "avx2" in found else ""
    return ProcessorKind(
        name_machine(), width, bool(found & {"avx512_vnni", "avx_vnni", "asimddp", "i8mm"})
    )


def choose_table(
    kind: ProcessorKind, version: str, tables: Sequence[ShippedTable] = SHIPPED
) -> ShippedTable:
    """The table of a processor and version, or the nearest one.

    Args:
        kind: The processor.
        version: Version of ONNX Runtime, such as ``1.31.1``.
        tables: The tables, at least one.
    """
    major, minor = parse_version(version)

    def distance(shipped: ShippedTable) -> tuple[bool, bool, bool, int]:
        own, (own_major, own_minor) = shipped.kind, parse_version(shipped.table.version)
        apart = abs(100 * (major - own_major) + minor - own_minor)
        return (
            own.machine != kind.machine, own.exact_sums != kind.exact_sums, own.width != kind.width,
            apart,
        )  # fmt: skip

    return min(tables, key=distance)


def get_shipped_table() -> OrtCostTable:
    """The shipped table of this machine's processor and ONNX Runtime, or the nearest one."""
    return choose_table(describe_this_processor(), ORT_VERSION).table


def get_cost_table(target: Target) -> OrtCostTable | None:
    """The table that decides what stays float on the target; None where no cost decides."""
    if target.costs is None:
        return None
    return get_given_cost_table() or get_shipped_table()


def describe_measured_runtime(target: Target) -> tuple[str, str]:
    """The runtime that the target's costs were measured on, and a remark if another version is installed."""
    table = get_cost_table(target)
    return (target.source, "") if table is None else (table.source, table.version_note())


def describe_choice(target: Target) -> str:
    """A note where the shipped table is of another kind of processor than this one, or a given one has no effect.

    Otherwise it is empty.
    The reason of each node that the table leaves float names another version of ONNX Runtime itself.
    """
    given = get_given_cost_table() is not None
    if target.costs is None:
        return (
            f"cost_table has no effect: no times decide for target {target.name}" if given else ""
        )
    kind = describe_this_processor()
    shipped = choose_table(kind, ORT_VERSION)
    if given or shipped.kind == kind:
        return ""
    return (
        f"times are those of the nearest table, ONNX Runtime {shipped.table.version} on {shipped.kind}, and here is "
        f"{ORT_VERSION} on {kind}; a table of this machine decides better (ptq tune)"
    )
