"""Which samples validate what others chose; the oracle is the one split of all calibration samples."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.data import Samples, split_every_fourth, spread_with_validation

USERS = (
    "ptq.calibration.rounding_samples",
    "ptq.optimization.outlier_splitting",
)


LAYERS = "c = Conv(x, w)\nr = Relu(c)\nd = Conv(r, v)\ny = Relu(d)"
PRODUCTS = "m = MatMul(x, w)\nr = Relu(m)\ny = MatMul(r, v)"


@pytest.mark.parametrize(
    ("nodes", "shape", "weight", "users"),
    [(LAYERS, (8, 4, 4), (8, 8, 1, 1), {0}), (PRODUCTS, (3, 128), (128, 128), {0, 1})],
    ids=["channels", "outliers"],
)
def test_no_sample_validates_one_stage_and_trains_another(
    nodes: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
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
    weights = {name: gaussian_array(*weight, seed=seed) for seed, name in enumerate("wv")}
    model = build_network(nodes, {"x": ("n", *shape)}, **weights)
    ptq.quantize(model, {"x": gaussian_array(300, *shape)}, threads=1)
    assert set(calls) == users
    assert all(split == whole[0] for split in whole)
    for training, held_out in (split for of_user in calls.values() for split in of_user):
        assert held_out
        assert training <= whole[0][0]
        assert held_out <= whole[0][1]
