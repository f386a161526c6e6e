"""Arrays that do not fit an input: the message says what they look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from networks import build_network

import ptq
from ptq.core.errors import DataError
from ptq.data import InputSpec
from ptq.data.input_spec import check_header, match_keys


def check(takes: tuple[int | None, ...], shape: tuple[int, ...]) -> str:
    spec = InputSpec("x", np.dtype(np.float32), takes)
    with pytest.raises(DataError) as caught:
        check_header(spec, shape, np.dtype(np.float32), "here")
    return str(caught.value)


@pytest.mark.parametrize(
    ("takes", "shape"), [((None, 1, 28, 28), (1, 28, 28, 1)), ((1, 3, None, None), (1, 8, 6, 3))]
)
def test_nhwc_given_for_nchw_is_named_with_the_transposition(
    takes: tuple[int | None, ...], shape: tuple[int, ...]
) -> None:
    message = check(takes, shape)
    assert message.endswith("it looks like NHWC for NCHW: transpose the arrays by (0, 3, 1, 2)")
    assert np.zeros(shape).transpose(0, 3, 1, 2).shape[1] == takes[1]


def test_nchw_given_for_nhwc_is_named_with_the_transposition() -> None:
    message = check((1, 16, 12, 3), (1, 3, 16, 12))
    assert message.endswith("it looks like NCHW for NHWC: transpose the arrays by (0, 2, 3, 1)")


@pytest.mark.parametrize(
    ("takes", "shape"),
    [
        ((None, 3, 8, 8), (1, 3, 8, 9)),
        ((None, 64, 8, 8), (1, 8, 8, 64)),
        ((None, 3, 8), (1, 8, 3)),
        ((None, 3, 8, 8), (1, 9, 9, 3)),
    ],
)
def test_another_wrong_shape_is_not_taken_for_another_layout(
    takes: tuple[int | None, ...], shape: tuple[int, ...]
) -> None:
    assert "looks like" not in check(takes, shape)


@pytest.mark.parametrize("name", ["y", "label", "Target"])
def test_an_array_named_as_labels_are_elsewhere_is_to_be_renamed(name: str) -> None:
    spec = InputSpec("x", np.dtype(np.float32), (None, 4))
    with pytest.raises(DataError, match=f"'{name}' holds the class numbers, rename it to 'labels'"):
        match_keys(["x", name], [spec], "data.npz")


def test_a_stranger_of_another_name_is_not_taken_for_labels() -> None:
    spec = InputSpec("x", np.dtype(np.float32), (None, 4))
    with pytest.raises(DataError, match=r"unexpected 'weights'$"):
        match_keys(["x", "weights"], [spec], "data.npz")


@pytest.mark.parametrize(
    ("name", "shape", "is_named"),
    [
        ("functional_1/normalization/Sub/y:0", (1, 1, 1, 3), True),
        ("normalization_1/Sqrt/x:0", (3,), True),
        ("model/truediv_1/y", (1, 3), False),
        ("model/RealDiv_1/y", (1, 3), True),
        ("other/y:0", (1, 3), False),
        ("functional_1/normalization/Sub/y:0", (None, 3), False),
        ("mask", (1, 3), False),
    ],
)
def test_constants_that_an_exporter_left_as_inputs_are_named(
    name: str, shape: tuple[int | None, ...], is_named: bool
) -> None:
    specs = [
        InputSpec("image", np.dtype(np.float32), (None, 3)),
        InputSpec(name, np.dtype(np.float32), shape),
    ]
    with pytest.raises(DataError, match="missing") as caught:
        match_keys(["image"], specs, "data.npz")
    assert ("make them initializers" in str(caught.value)) is is_named


def test_statistics_are_recognized_and_long_lists_of_arrays_cut(tmp_path: Path) -> None:
    spec = InputSpec("x", np.dtype(np.float32), (None, 3))
    rows = {"x": np.zeros((8, 3), np.float32)}
    calibration = ptq.calibrate(build_network("y = Relu(x)", {"x": ("n", 3)}), rows, threads=1)
    calibration.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as arrays, pytest.raises(DataError) as caught:
        match_keys(arrays.files, [spec], "s.npz")
    assert (
        str(caught.value) == "s.npz: these are statistics of ptq, not samples; give them as `stats`"
    )
    with pytest.raises(DataError, match=r"unexpected 'a0', .* 'a7' and 3 more$"):
        match_keys(["x", *(f"a{k}" for k in range(11))], [spec], "data.npz")
