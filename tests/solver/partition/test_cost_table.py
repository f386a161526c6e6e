"""Measured times, the targets that they decide for, and the reasons that name them."""

from __future__ import annotations

from dataclasses import fields, replace
from inspect import cleandoc

import pytest
from networks import build_network, gaussian_array, quantize_network

from ptq.core.ops import OPS
from ptq.core.targets import TARGETS
from ptq.model.graph import Graph
from ptq.model.node import get_spec_name
from ptq.solver.partition import cost_table, shipped_tables
from ptq.solver.partition.cost_model import estimate_sizes, price_kernel
from ptq.solver.partition.cost_table import ORT_1_31_AVX512_VNNI, OrtCostTable, use_cost_table
from ptq.solver.partition.kernel_key import get_kernel_kind
from ptq.solver.partition.shipped_tables import (
    SHIPPED,
    ProcessorKind,
    ShippedTable,
    choose_table,
    describe_choice,
    get_cost_table,
)

GROUPS = (
    "c = Conv(x, w)\nr = Relu(c)\ng = Conv<pads = [1, 1, 1, 1], group = 16>(r, s)\n"
    "t = Relu(g)\ny = Conv(t, u)"
)
GROUP_WEIGHTS = {
    "w": gaussian_array(64, 16, 1, 1),
    "s": gaussian_array(64, 4, 3, 3),
    "u": gaussian_array(16, 64, 1, 1),
}
DIGEST_OF_0_2 = "dd50fd551f455f8681affd9bc27e369962104ad78e0828d8e3cdf8a51bbec5f6"
"""Digest of the shipped table in plans of version 0.2.0."""


def grouped_floats() -> dict[str, str]:
    """The float nodes of a network with a grouped convolution, with their reasons."""
    model = build_network(GROUPS, {"x": (1, 16, 64, 64)}, **GROUP_WEIGHTS)
    return dict(quantize_network(model).plan.floats)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_with_lookup_tables_has_no_costs(target: str) -> None:
    row = TARGETS[target]
    assert get_cost_table(row) is None or not row.has_lookup_tables


@pytest.mark.parametrize("table", [shipped.table for shipped in SHIPPED], ids=lambda t: t.name)
def test_every_number_has_a_documented_field(table: OrtCostTable) -> None:
    for field in fields(OrtCostTable):
        assert f"    {field.name}: " in cleandoc(OrtCostTable.__doc__ or "")
        assert getattr(table, field.name) or field.name in ("kernels", "scales")


def test_only_the_source_of_the_costs_names_a_version() -> None:
    assert ORT_1_31_AVX512_VNNI.source == "ONNX Runtime 1.31.1, CPU"
    assert not any(letter.isdigit() for letter in TARGETS["ort"].source)


@pytest.mark.parametrize(
    ("installed", "measured", "note"),
    [
        ("1.31.1", "1.31.1", ""),
        ("1.32.0", "1.32.0", ""),
        ("1.40.0", "1.32.0", " (measured on ONNX Runtime 1.32.0; 1.40.0 is installed)"),
    ],
)
def test_reasons_name_the_measured_and_another_installed_version(
    monkeypatch: pytest.MonkeyPatch, installed: str, measured: str, note: str
) -> None:
    for module in (cost_table, shipped_tables):
        monkeypatch.setattr(module, "ORT_VERSION", installed)
    assert grouped_floats() == {
        "Conv_g": f"ONNX Runtime {measured}, CPU computes it faster in float" + note,
        "Relu_t": "neighbours are float; quantize/dequantize would cost more than int8 saves"
        + note,
    }
    model = build_network("c = Conv(x, w)\ny = Softmax(c)", w=gaussian_array(4, 3, 1, 1))
    floats = quantize_network(model).plan.floats
    assert floats == {
        "Softmax_y": f"ONNX Runtime {measured}, CPU computes Softmax faster in float" + note
    }


def make_table(version: str, *kind: object) -> ShippedTable:
    return ShippedTable(
        replace(ORT_1_31_AVX512_VNNI, version=version),
        ProcessorKind(*kind),  # type: ignore[arg-type]
    )


TABLES = {
    "old": make_table("1.20.1", "x86_64", "avx512", True),
    "new": make_table("1.31.1", "x86_64", "avx512", True),
    "avx2": make_table("1.31.1", "x86_64", "avx2", False),
    "arm": make_table("1.28.0", "aarch64", "", True),
}


@pytest.mark.parametrize(
    ("kind", "version", "name"),
    [
        (("x86_64", "avx512", True), "1.31.2", "new"),
        (("x86_64", "avx512", True), "1.20.0", "old"),
        (("x86_64", "avx512", True), "1.24.0", "old"),
        (("x86_64", "avx512", True), "1.32.0", "new"),
        (("x86_64", "avx2", False), "1.20.1", "avx2"),
        (("x86_64", "avx2", True), "1.31.1", "new"),  # VNNI matters more than the width
        (("x86_64", "", False), "1.31.1", "avx2"),
        (("aarch64", "", True), "1.28.3", "arm"),
        (("aarch64", "", False), "1.31.0", "arm"),
        (("riscv64", "", False), "1.31.0", "avx2"),
    ],
)
def test_the_exact_table_serves_else_the_nearest(
    kind: tuple[str, str, bool], version: str, name: str
) -> None:
    found = choose_table(ProcessorKind(*kind), version, list(TABLES.values()))
    assert found == TABLES[name]


def test_the_nearest_table_is_noted_with_both_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ProcessorKind("x86_64", "avx2")
    monkeypatch.setattr(shipped_tables, "describe_this_processor", lambda: own)
    monkeypatch.setattr(shipped_tables, "ORT_VERSION", "1.40.0")
    assert describe_choice(TARGETS["ort"]) == (
        "times are those of the nearest table, ONNX Runtime 1.32.0 on x86_64 with AVX512 and VNNI, and here is "
        "1.40.0 on x86_64 with AVX2 and no VNNI; a table of this machine decides better (ptq tune)"
    )
    assert describe_choice(TARGETS["litert"]) == ""
    with use_cost_table(ORT_1_31_AVX512_VNNI):
        assert describe_choice(TARGETS["ort"]) == ""


def test_a_given_table_that_does_not_decide_is_noted() -> None:
    with use_cost_table(ORT_1_31_AVX512_VNNI):
        assert describe_choice(TARGETS["litert"]) == (
            "cost_table has no effect: no times decide for target litert"
        )


def test_a_table_of_the_same_kind_of_processor_needs_no_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = ProcessorKind("x86_64", "avx512", exact_sums=True)
    monkeypatch.setattr(shipped_tables, "describe_this_processor", lambda: own)
    monkeypatch.setattr(shipped_tables, "ORT_VERSION", "1.32.0")
    assert describe_choice(TARGETS["ort"]) == ""


def test_scales_of_a_kind_scale_the_estimates_of_its_kernels_only() -> None:
    model = build_network(GROUPS, {"x": (1, 16, 64, 64)}, **GROUP_WEIGHTS)
    graph = Graph.from_proto(model)
    scaled = replace(ORT_1_31_AVX512_VNNI, scales={"Conv, pointwise": (2.0, 3.0)})
    for node in graph.nodes:
        before, after = (
            price_kernel(node, OPS[get_spec_name(node)], estimate_sizes(graph), table)
            for table in (ORT_1_31_AVX512_VNNI, scaled)
        )
        factors = (2.0, 3.0) if get_kernel_kind(node) == "Conv, pointwise" else (1.0, 1.0)
        assert after.float_cost == pytest.approx(factors[0] * before.float_cost)
        assert after.integer_cost == pytest.approx(factors[1] * before.integer_cost)
    assert [get_kernel_kind(node) for node in graph.nodes] == [
        "Conv, pointwise", "Relu", "Conv, grouped", "Relu", "Conv, pointwise",
    ]  # fmt: skip


def test_the_digest_of_a_table_without_scales_is_that_of_before() -> None:
    assert ORT_1_31_AVX512_VNNI.digest == DIGEST_OF_0_2
    assert replace(ORT_1_31_AVX512_VNNI, scales={"Conv": (1.0, 2.0)}).digest != DIGEST_OF_0_2


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("1.20.1", "ort-1.31-avx512-vnni"),
        ("1.31.1", "ort-1.31-avx512-vnni"),
        ("1.32.0", "ort-1.32-avx512-vnni"),
        ("1.40.0", "ort-1.32-avx512-vnni"),
    ],
)
def test_each_version_of_the_runtime_gets_the_table_of_the_nearest_one(
    version: str, name: str
) -> None:
    kind = ProcessorKind("x86_64", "avx512", exact_sums=True)
    assert choose_table(kind, version).table.name == name


def test_the_tables_of_both_versions_differ_and_have_digests_of_their_own() -> None:
    digests = {shipped.table.digest for shipped in SHIPPED}
    assert len(digests) == len(SHIPPED) == 2
