"""A bad sample is left out and reported, wherever it stands, in every stage that reads a part of the samples."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network

import ptq
from ptq.core.errors import DataError
from ptq.data.holdout import split_holdout
from ptq.data.splits import list_input_specs
from ptq.model.open import open_model

COUNT = 48
rng = np.random.default_rng(7)
MODEL = build_network(
    "a = Conv(x, w)\n r = Relu(a)\n b = Conv(r, v)\n s = Relu(b)\n p = GlobalAveragePool(s)\n f = Flatten(p)\n"
    "y = MatMul(f, m)",
    w=(rng.normal(size=(8, 3, 3, 3)) * np.geomspace(1, 60, 8)[:, None, None, None]).astype(
        np.float32
    ),
    v=rng.normal(size=(8, 8, 3, 3)).astype(np.float32),
    m=rng.normal(size=(8, 5)).astype(np.float32),
)
OTHERS = rng.normal(size=(COUNT, 3, 8, 8)).astype(np.float32)


def with_bad(*positions: int) -> dict[str, np.ndarray]:
    rows = np.random.default_rng(1).normal(size=(COUNT, 3, 8, 8)).astype(np.float32)
    rows[list(positions)] = np.nan
    return {"x": rows}


@pytest.mark.parametrize("position", [0, 20, COUNT - 1])
@pytest.mark.parametrize("effort", ["fast", "default"])
def test_a_bad_calibration_sample_is_left_out_and_reported(position: int, effort: str) -> None:
    result = ptq.quantize(
        MODEL, with_bad(position), eval_data={"x": OTHERS}, skip_bad_samples=True, effort=effort, force=True
    )  # fmt: skip
    assert [name for name, _ in result.report.skipped] == [f"data[{position}]"]
    assert result.report.metrics()["skipped_samples"] == 1
    assert result.calibration.samples == COUNT - 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_first_sample_is_left_out_of_an_evaluation(workers: int) -> None:
    found = ptq.evaluate(MODEL, with_bad(0), skip_bad_samples=True, workers=workers)
    assert (found.samples, [name for name, _ in found.skipped]) == (COUNT - 1, ["data[0]"])


def test_a_held_out_part_of_which_none_is_good_is_named() -> None:
    rows = np.random.default_rng(2).normal(size=(60, 3, 8, 8)).astype(np.float32)
    samples = ptq.open_samples({"x": rows}, list_input_specs(open_model(MODEL)))
    held_out = [int(name[5:-1]) for name in split_holdout(samples)[1].names]
    rows[held_out] = np.nan
    with pytest.raises(DataError, match=f"all {len(held_out)} samples that were read are bad"):
        ptq.quantize(MODEL, {"x": rows}, skip_bad_samples=True, effort="fast", force=True)


def test_samples_of_which_none_is_good_are_refused() -> None:
    with pytest.raises(
        DataError, match=f"all {COUNT} samples that were read are bad; the first: data\\[0\\]"
    ):
        ptq.evaluate(MODEL, with_bad(*range(COUNT)), skip_bad_samples=True)
    with pytest.raises(DataError, match="samples that were read are bad; the first: data\\[0\\]"):
        ptq.quantize(MODEL, with_bad(*range(COUNT)), skip_bad_samples=True)
