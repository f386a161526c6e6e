"""What a model's first nodes say of the pixel values that it wants; the frameworks' conventions are the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network
from parts import W
from PIL import Image

import ptq
from ptq.data.splits import list_input_specs
from ptq.model.graph import Graph
from ptq.rewrite.prepare.prepare import prepare

IMAGENET_255 = np.float32([123.675, 116.28, 103.53]).reshape(1, 3, 1, 1)
STD_255 = np.float32([58.395, 57.12, 57.375]).reshape(1, 3, 1, 1)
LAST = np.float32([0.485, 0.456, 0.406])


def _scale(nodes: str, inputs: dict[str, tuple[int | str | None, ...]] | None = None, **weights):
    model = build_network(nodes, inputs, w=W, **weights)
    (spec,) = list_input_specs(Graph.from_proto(model))
    (prepared,) = list_input_specs(prepare(Graph.from_proto(model)).graph)
    assert spec.pixel_scale == prepared.pixel_scale
    return spec.pixel_scale


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ("s = Sub(x, m)\nd = Div(s, e)\ny = Conv(d, w)", {"m": IMAGENET_255, "e": STD_255}),
        ("s = Sub(x, m)\ny = Conv(s, w)", {"m": IMAGENET_255}),
        ("d = Div(x, e)\ny = Conv(d, w)", {"e": np.float32(255)}),
        ("d = Mul(e, x)\ns = Add(d, m)\ny = Conv(s, w)", {"e": np.float32(1 / 127.5), "m": np.float32(-1)}),
        ("d = BatchNormalization(x, a, b, m, v)\ny = Conv(d, w)",
         {"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32),
          "m": np.full(3, 110, np.float32), "v": np.full(3, 4000, np.float32)}),
    ],
)  # fmt: skip
def test_a_model_that_normalizes_by_itself_is_fed_0_to_255(
    nodes: str, weights: dict[str, np.ndarray]
) -> None:
    assert _scale(nodes, **weights) == 1


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ("d = Mul(x, e)\ns = Sub(d, m)\ny = Conv(s, w)", {"e": np.float32(2), "m": np.float32(1)}),
        ("d = Mul(x, e)\ny = Conv(d, w)", {"e": np.float32(255)}),
    ],
)
def test_a_model_that_normalizes_0_to_1_by_itself_is_fed_that(
    nodes: str, weights: dict[str, np.ndarray]
) -> None:
    assert _scale(nodes, **weights) == 1 / 255


def test_constants_along_the_last_axis_are_read_too() -> None:
    nodes = "s = Sub(x, m)\nt = Transpose<perm=[0,3,1,2]>(s)\ny = Conv(t, w)"
    assert _scale(nodes, {"x": ("n", 8, 8, 3)}, m=LAST) == 1 / 255


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ("y = Conv(x, w)", {}),
        ("d = Mul(x, e)\ny = Conv(d, w)", {"e": np.float32(0.5)}),
        ("a = Add(x, m)\nb = Mul(x, m)\nc = Add(a, b)\ny = Conv(c, w)", {"m": IMAGENET_255}),
        # the first layer of a network of images that are normalized already
        ("d = BatchNormalization(x, a, b, m, v)\ny = Conv(d, w)",
         {"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32),
          "m": np.float32([-0.03, 0.01, 0.02]), "v": np.full(3, 1.2, np.float32)}),
    ],
)  # fmt: skip
def test_nothing_is_concluded_from_a_model_that_begins_otherwise(
    nodes: str, weights: dict[str, np.ndarray]
) -> None:
    assert _scale(nodes, **weights) is None


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize(
    ("reach", "lowest", "scale"), [(255.0, 0.0, 1.0), (1.0, 0.0, 1 / 255), (2.6, -2.1, None)]
)
def test_the_range_of_a_quantized_input_shows_the_values_it_was_calibrated_on(
    form: str, reach: float, lowest: float, scale: float | None
) -> None:
    model = build_network("c = Conv(x, w)\ny = Relu(c)", w=W)
    ramp = np.linspace(lowest, reach, 192, dtype=np.float32).reshape(1, 1, 3, 8, 8)
    made = ptq.quantize(model, [{"x": ramp[0]}], form=form, threads=1)
    (spec,) = list_input_specs(made.graph)
    assert spec.pixel_scale == scale


def test_a_model_with_its_own_normalization_is_calibrated_on_pixels(tmp_path: Path) -> None:
    model = build_network(
        "s = Sub(x, m)\nd = Div(s, e)\ny = Conv(d, w)", w=W, m=IMAGENET_255, e=STD_255
    )
    for shade in range(4):
        Image.new("RGB", (8, 8), (80 * shade, 255, 9)).save(tmp_path / f"{shade}.png")
    result = ptq.quantize(
        onnx.ModelProto.FromString(model.SerializeToString()), tmp_path, threads=1
    )
    assert result.calibration.tensors["x"].max == 255
    assert result.report.preprocessing["scale"] == 1
    assert "mean" not in result.report.preprocessing
    assert any("normalize values of 0 … 255 itself" in s.what for s in result.report.suspects)
