"""Layers that stay float for OpenVINO; which ones are faster was measured by benchmarks/openvino_layers.py."""

from __future__ import annotations

import pytest
from networks import build_network, gaussian_array, quantize_network
from onnx import ModelProto

from ptq.core.targets import TARGETS
from ptq.solver.partition import float_layers
from ptq.solver.partition.float_layers import OPENVINO_2026_4, get_layer_times

SAME = "<pads = [1, 1, 1, 1]>"
LAST = gaussian_array(8, 16, 3, 3, scale=0.1)
"""A layer behind those of a test, which always becomes integers."""


def float_layers_of(
    model: ModelProto, monkeypatch: pytest.MonkeyPatch, machine: str = "x86_64", **options: str
) -> set[str]:
    """The layers of a model that stay float because they are faster so, on a machine."""
    monkeypatch.setattr(float_layers, "name_machine", lambda: machine)
    floats = quantize_network(model, **{"target": "openvino", **options}).plan.floats
    return {name for name, why in floats.items() if why.endswith("computes it faster in float")}


def first_layer(outputs: int, kernel: int, side: int, before: str = "") -> ModelProto:
    """A network whose first layer reads three channels, directly or behind an operator."""
    pad, source = kernel // 2, "x" if not before else "p"
    lines = f"p = {before}(x)\n" if before else ""
    return build_network(
        f"{lines}c = Conv<pads = [{pad}, {pad}, {pad}, {pad}]>({source}, w)\nr = Relu(c)\n"
        f"d = Conv(r, u)\ny = Conv{SAME}(d, v)",
        {"x": (1, 3, side, side)},
        w=gaussian_array(outputs, 3, kernel, kernel),
        u=gaussian_array(16, outputs, 1, 1, seed=1),
        v=LAST,
    )


def test_a_first_layer_of_few_multiplications_stays_float(monkeypatch: pytest.MonkeyPatch) -> None:
    assert float_layers_of(first_layer(8, 3, 32), monkeypatch) == {"Conv_c"}  # 0.2 million
    assert float_layers_of(first_layer(64, 7, 32), monkeypatch) == set()  # 9.6 million


def test_a_layer_behind_another_operator_is_no_first_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    # the quantizer is fused into that operator
    assert float_layers_of(first_layer(8, 3, 32, "Sigmoid"), monkeypatch) == set()


def gate(squeezed: int) -> ModelProto:
    """A network with squeeze-and-excitation of 64 channels."""
    return build_network(
        "s = Sigmoid(x)\ng = GlobalAveragePool(s)\nf = Conv(g, w)\nr = Relu(f)\ne = Conv(r, u)\n"
        f"h = Sigmoid(e)\nm = Mul(s, h)\ny = Conv{SAME}(m, v)",
        {"x": (1, 64, 16, 16)},
        w=gaussian_array(squeezed, 64, 1, 1),
        u=gaussian_array(64, squeezed, 1, 1, seed=1),
        v=gaussian_array(8, 64, 3, 3, scale=0.1),
    )


def test_layers_of_one_pixel_stay_float_unless_their_weights_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert float_layers_of(gate(16), monkeypatch) == {"Conv_f", "Conv_e"}
    assert float_layers_of(gate(256), monkeypatch) == set()


@pytest.mark.parametrize(("rows", "expected"), [(1, {"Gemm_y"}), (4, set())])
def test_a_dense_layer_of_one_row_stays_float(
    rows: int, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_network(
        "h = Gemm(x, w)\nr = Relu(h)\ny = Gemm(r, u)",
        {"x": (rows, 128)},
        w=gaussian_array(128, 128),
        u=gaussian_array(128, 10, seed=1),
    )
    assert float_layers_of(model, monkeypatch) == expected


def test_a_model_of_such_layers_alone_is_quantized(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_network("y = Gemm(x, w)", {"x": (1, 16)}, w=gaussian_array(16, 4))
    assert float_layers_of(model, monkeypatch) == set()


def test_only_openvino_on_x86_has_such_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert float_layers_of(first_layer(8, 3, 32), monkeypatch, "aarch64") == set()
    assert float_layers_of(first_layer(8, 3, 32), monkeypatch, target="portable") == set()
    monkeypatch.setattr(float_layers, "name_machine", lambda: "x86_64")
    assert [name for name, row in TARGETS.items() if get_layer_times(row)] == ["openvino"]


def test_the_plan_names_the_table_that_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_layers, "name_machine", lambda: "x86_64")
    plan = quantize_network(gate(16), target="openvino").plan
    assert plan.costs == {"table": OPENVINO_2026_4.name, "digest": OPENVINO_2026_4.digest}
