"""Arrays that a user goes on using, or that are not in C order, give the bytes of plain copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import DataError

X = gaussian_array(24, 3, 8, 8, seed=1)
MODEL = build_network(
    "c = Conv(x, w)\ny = Relu(c)", {"x": ("n", 3, 8, 8)}, w=gaussian_array(4, 3, 3, 3)
)


class OneBuffer:
    """A dataset that writes each item into the same array."""

    def __init__(self) -> None:
        self.buffer = np.empty(X.shape[1:], X.dtype)

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> np.ndarray:
        if index >= len(X):
            raise IndexError
        self.buffer[...] = X[index]
        return self.buffer


def _channels_last() -> np.ndarray:
    return np.ascontiguousarray(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.mark.parametrize(
    "data",
    [OneBuffer(), _channels_last(), list(_channels_last()), np.asfortranarray(X)],
    ids=["one buffer", "channels last", "rows of channels last", "Fortran order"],
)
def test_the_statistics_are_those_of_plain_copies(data: Any) -> None:
    expected = ptq.calibrate(MODEL, {"x": X}, threads=1)
    found = ptq.calibrate(MODEL, data, threads=1)
    assert found.tensors == expected.tensors
    for name, sums in expected.channels.items():
        assert np.array_equal(sums.sums, found.channels[name].sums)


class BadStart:
    """A dataset whose first items cannot be read."""

    def __init__(self, bad: int) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> np.ndarray:
        if index < self.bad:
            raise ValueError("damaged")
        return X[index]


def test_bad_items_at_the_start_are_left_out_as_others_are() -> None:
    found = ptq.calibrate(MODEL, BadStart(3), skip_bad_samples=True, threads=1)
    assert found.samples == len(X) - 3
    for bad, skip in ((3, False), (len(X), True)):
        with pytest.raises(DataError, match=r"\[0\]: raised ValueError: damaged"):
            ptq.calibrate(MODEL, BadStart(bad), skip_bad_samples=skip, threads=1)


def test_rows_may_have_an_empty_axis_that_the_model_takes(tmp_path: Path) -> None:
    model = build_network(
        "j = Concat<axis = 1>(past, x)\ny = MatMul(j, w)",
        {"past": ("n", "p", 4), "x": ("n", 1, 4)},
        w=gaussian_array(4, 4),
    )
    np.savez(tmp_path / "x.npz", past=np.zeros((6, 0, 4), np.float32), x=gaussian_array(6, 1, 4))
    assert ptq.calibrate(model, tmp_path / "x.npz", threads=1).samples == 6
