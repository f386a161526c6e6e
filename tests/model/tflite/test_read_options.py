"""Options of LiteRT's operators: each is read, or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.errors import UnsupportedError
from ptq.data.sample_source import Sample
from ptq.executor.executor import Executor
from ptq.model.open import open_model

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from tflite_file import FileBuilder, require_integers_of_litert

from ptq.model.tflite.interpreter import LitertModel
from ptq.verification.verify_tflite import verify_tflite

RNG = np.random.default_rng(3)


def _options(b: FileBuilder, name: str, **given: Any) -> Any:
    options = getattr(b.schema, f"{name}OptionsT")()
    for field, value in given.items():
        setattr(options, field, value)
    return options


def test_the_factor_of_a_softmax_is_read() -> None:
    b = FileBuilder()
    x, y = b.tensor("x", (3, 11), np.float32), b.tensor("y", (3, 11), np.float32)
    content = b.build("SOFTMAX", [x], [y], _options(b, "Softmax", beta=0.5))
    feed = {"x": RNG.normal(0, 2, (3, 11)).astype(np.float32)}
    [expected] = LitertModel(content, kernels="reference").run(feed).values()
    [found] = Executor(open_model(content), "litert").run(feed).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_mirror_pad_leaves_out_the_edge_or_repeats_it(mode: int) -> None:
    b = FileBuilder()
    paddings = b.tensor("paddings", (3, 2), np.int32, [[0, 0], [1, 2], [3, 0]])
    x, y = b.tensor("x", (2, 4, 5), scale=0.05), b.tensor("y", (2, 7, 8), scale=0.05)
    content = b.build("MIRROR_PAD", [x, paddings], [y], _options(b, "MirrorPad", mode=mode))
    require_integers_of_litert(content, {"x": RNG.normal(0, 2, (2, 4, 5)).astype(np.float32)})


def test_a_mirror_pad_of_an_open_axis_is_refused_where_it_repeats_the_edge() -> None:
    b = FileBuilder()
    paddings = b.tensor("paddings", (2, 2), np.int32, [[0, 0], [1, 2]])
    x, y = b.tensor("x", (2, -1), scale=0.05), b.tensor("y", (2, -1), scale=0.05)
    content = b.build("MIRROR_PAD", [x, paddings], [y], _options(b, "MirrorPad", mode=1))
    with pytest.raises(UnsupportedError, match="edges of x, whose size is open"):
        open_model(content)


def _gather(axis: int) -> bytes:
    b = FileBuilder()
    rows = b.tensor("rows", (2, 2), np.int32, [[0, 2], [2, 1]])
    x, y = b.tensor("x", (2, 3, 4), scale=0.05), b.tensor("y", (2, 2, 4), scale=0.05)
    options = _options(b, "Gather", axis=axis, batchDims=1)
    return b.build("GATHER", [x, rows], [y], options)


def test_a_gather_with_positions_for_each_sample_is_read_along_the_next_axis() -> None:
    require_integers_of_litert(_gather(1), {"x": RNG.normal(0, 2, (2, 3, 4)).astype(np.float32)})
    with pytest.raises(UnsupportedError, match="along axis 2 with batch_dims 1 is not read"):
        open_model(_gather(2))


@pytest.mark.parametrize(
    ("builtin", "kind", "option"),
    [("STRIDED_SLICE", "StridedSlice", {"offset": True}), ("L2_NORMALIZATION", "L2Norm",
     {"fusedActivationFunction": 1}), ("FULLY_CONNECTED", "FullyConnected", {"weightsFormat": 1}),
     ("CONCATENATION", "Concatenation", {"fusedActivationFunction": 1})],
)  # fmt: skip
def test_an_option_that_is_not_read_is_refused(builtin: str, kind: str, option: Any) -> None:
    b = FileBuilder()
    x, y = b.tensor("x", (2, 3), scale=0.05), b.tensor("y", (2, 3), scale=0.05)
    content = b.build(builtin, [x], [y], _options(b, kind, **option))
    with pytest.raises(
        UnsupportedError, match=rf"{builtin} \(tensor y\).* option {next(iter(option))} ="
    ):
        open_model(content)


def test_an_activation_on_numbers_that_are_not_quantized_is_refused() -> None:
    b = FileBuilder()
    x, y = (b.tensor(name, (2, 3), np.int32) for name in "xy")
    content = b.build("ADD", [x, x], [y], _options(b, "Add", fusedActivationFunction=1))
    with pytest.raises(UnsupportedError, match=r"activation RELU of y \(int32\) is not read"):
        open_model(content)


def test_two_options_for_the_positions_of_pixels_are_refused() -> None:
    b = FileBuilder()
    x, y = (b.tensor(name, (1, n, n, 1), scale=0.05) for name, n in (("x", 3), ("y", 5)))
    size = b.tensor("size", (2,), np.int32, (5, 5))
    both = {"alignCorners": True, "halfPixelCenters": True}
    options = _options(b, "ResizeNearestNeighbor", **both)
    content = b.build("RESIZE_NEAREST_NEIGHBOR", [x, size], [y], options)
    with pytest.raises(UnsupportedError, match="has align_corners and half_pixel_centers"):
        open_model(content)


def test_a_bias_of_32_bits_beside_int16_is_refused() -> None:
    b = FileBuilder()
    inputs = [
        b.tensor("x", (2, 6), np.int16, scale=0.05),
        b.tensor("w", (4, 6), content=np.ones((4, 6)), scale=0.01),
        b.tensor("b", (4,), np.int32, np.ones(4), scale=0.0005),
    ]
    y = b.tensor("y", (2, 4), np.int16, scale=0.1)
    content = b.build("FULLY_CONNECTED", inputs, [y], b.schema.FullyConnectedOptionsT())
    with pytest.raises(UnsupportedError, match="bias b of FULLY_CONNECTED on int16 is int32"):
        open_model(content)


def test_the_shape_of_a_reshape_may_be_an_option() -> None:
    b = FileBuilder()
    x, y = b.tensor("x", (2, 6), scale=0.05), b.tensor("y", (3, 4), scale=0.05)
    content = b.build("RESHAPE", [x], [y], _options(b, "Reshape", newShape=[3, 4]))
    require_integers_of_litert(content, {"x": RNG.normal(0, 2, (2, 6)).astype(np.float32)})


@pytest.mark.parametrize("builtin", ["ADD", "SUB"])
def test_int16_that_litert_shifts_is_refused(builtin: str) -> None:
    def file(output: float, pot: bool) -> bytes:
        b = FileBuilder()
        pair = [b.tensor(name, (2, 3), np.int16, scale=2.0**-12) for name in "ab"]
        y = b.tensor("y", (2, 3), np.int16, scale=output)
        options = _options(b, builtin.title(), potScaleInt16=pot)
        return b.build(builtin, pair, [y], options)

    open_model(file(2.0**-11, False))
    open_model(file(2.0**-11 * 1.01, True))
    with pytest.raises(UnsupportedError, match=rf"{builtin} \(tensor y\).*`pot_scale_int16`"):
        open_model(file(2.0**-11 * 1.0005, True))


def test_a_file_of_one_operator_is_compared_at_its_node() -> None:
    b = FileBuilder()
    pair = [b.tensor(name, (1, 256), scale=scale) for name, scale in (("a", 0.05), ("b", 0.03))]
    y = b.tensor("y", (1, 256), scale=0.07)
    content = b.build("ADD", pair, [y], _options(b, "Add"))
    feed = {name: RNG.uniform(-4, 4, (1, 256)).astype(np.float32) for name in "ab"}
    graph, samples = open_model(content), [Sample("s", feed)]
    equal = verify_tflite(content, graph, samples, arithmetic="litert")
    assert {t.tensor for t in equal.tensors} == {"a_quantized", "b_quantized", "y_quantized", "y"}
    assert not any(t.differing for t in equal.tensors)
    other = verify_tflite(content, graph, samples, arithmetic="tpu-mlir-8")
    assert other.first is not None
    assert other.first.tensor == "y_quantized"
    assert other.first.differing_locally
