"""Which samples validate what others chose; the oracle is the one split of all calibration samples."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import onnx
import pytest
from test_compensation import network
from test_equalization import hard
from test_outlier_splitting import model

import ptq
from ptq.data import Samples, split_every_fourth, spread_with_validation

USERS = (
    "ptq.calibration.input_covariance",
    "ptq.optimization.compensation",
    "ptq.optimization.equalization",
    "ptq.optimization.outlier_splitting",
)


@pytest.mark.parametrize(
    ("quantized", "shape", "users"),
    [
        (hard(), (3, 8, 8), {0, 1, 2}),
        (network(), (16,), {0, 1, 2}),
        (model(), (3, 128), {0, 1, 3}),
    ],
    ids=["channels", "fully connected", "outliers"],
)
def test_no_sample_validates_one_stage_and_trains_another(
    quantized: onnx.ModelProto,
    shape: tuple[int, ...],
    users: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: dict[int, list[tuple[set[str], set[str]]]] = {}
    whole: list[tuple[set[str], set[str]]] = []

    def recorded(user: int) -> Any:
        def split(samples: Samples, count: int) -> tuple[Samples, Samples]:
            chosen = spread_with_validation(samples, count)
            calls.setdefault(user, []).append((set(chosen[0].names), set(chosen[1].names)))
            training, held_out = split_every_fourth(samples)
            whole.append((set(training.names), set(held_out.names)))
            return chosen

        return split

    for user, name in enumerate(USERS):
        monkeypatch.setattr(importlib.import_module(name), "spread_with_validation", recorded(user))
    rng = np.random.default_rng(3)
    data = [{"x": rng.normal(size=(1, *shape)).astype(np.float32)} for _ in range(200)]
    ptq.quantize(quantized, lambda: data, eval_data=lambda: data[:2], threads=1)
    assert set(calls) == users
    assert all(split == whole[0] for split in whole)
    for training, held_out in (split for of_user in calls.values() for split in of_user):
        assert held_out
        assert training <= whole[0][0]
        assert held_out <= whole[0][1]
