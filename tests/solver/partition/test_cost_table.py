"""Measured times, the targets that they decide for, and the reasons that name them."""

from __future__ import annotations

from dataclasses import fields

import pytest
from networks import build_network, gaussian_array, quantize_network

from ptq.core.targets import TARGETS
from ptq.solver.partition import cost_table
from ptq.solver.partition.cost_table import (
    COST_TABLES,
    ORT_1_31_AVX512_VNNI,
    OrtCostTable,
    get_cost_table,
)

GROUPS = (
    "c = Conv(x, w)\nr = Relu(c)\ng = Conv<pads = [1, 1, 1, 1], group = 16>(r, s)\n"
    "t = Relu(g)\ny = Conv(t, u)"
)


def grouped_floats() -> dict[str, str]:
    """The float nodes of a network with a grouped convolution, with their reasons."""
    weights = {
        "w": gaussian_array(64, 16, 1, 1),
        "s": gaussian_array(64, 4, 3, 3),
        "u": gaussian_array(16, 64, 1, 1),
    }
    model = build_network(GROUPS, {"x": (1, 16, 64, 64)}, **weights)
    return dict(quantize_network(model).plan.floats)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_with_lookup_tables_has_no_costs(target: str) -> None:
    row = TARGETS[target]
    assert get_cost_table(row) is None or not row.has_lookup_tables


@pytest.mark.parametrize("name", COST_TABLES)
def test_every_number_has_a_documented_field(name: str) -> None:
    table = COST_TABLES[name]
    assert table.name == name
    for field in fields(OrtCostTable):
        assert f"        {field.name}: " in (OrtCostTable.__doc__ or "")
        assert getattr(table, field.name) or field.name == "kernels"


def test_the_source_of_the_costs_is_that_of_the_target() -> None:
    assert ORT_1_31_AVX512_VNNI.source == TARGETS["ort"].source


@pytest.mark.parametrize(
    ("installed", "note"),
    [("1.31.1", ""), ("1.40.0", " (measured on ONNX Runtime 1.31.1; 1.40.0 is installed)")],
)
def test_reasons_name_the_measured_and_another_installed_version(
    monkeypatch: pytest.MonkeyPatch, installed: str, note: str
) -> None:
    monkeypatch.setattr(cost_table, "ORT_VERSION", installed)
    assert grouped_floats() == {
        "Conv_g": "ONNX Runtime 1.31.1, CPU computes it faster in float" + note,
        "Relu_t": "neighbours are float; quantize/dequantize would cost more than int8 saves"
        + note,
    }
    model = build_network("c = Conv(x, w)\ny = Softmax(c)", w=gaussian_array(4, 3, 1, 1))
    floats = quantize_network(model).plan.floats
    assert floats == {
        "Softmax_y": "ONNX Runtime 1.31.1, CPU computes Softmax faster in float" + note
    }
