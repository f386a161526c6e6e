"""Evaluation inputs on another scale than the calibration inputs are found; honest data never are.

The oracle is how the samples were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from networks import build_network
from numpy.typing import NDArray
from PIL import Image

import ptq
from ptq.data import Sample
from ptq.evaluation.checks.input_shift_check import InputShiftCheck
from ptq.observers.input_quantiles import LEVELS, InputQuantiles
from ptq.observers.stats import TensorStats

IMAGES = Path(__file__).parents[2] / "sample_data" / "images"
MODEL = build_network(
    "c = Conv(x, w)\ng = GlobalAveragePool(c)\nf = Flatten(g)\ny = Gemm(f, m)",
    {"x": ("n", 3, 4, 4)},
    w=np.random.default_rng(0).normal(size=(4, 3, 1, 1)).astype(np.float32),
    m=np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32),
)
Floats = NDArray[np.float32]
SCALES: dict[str, Callable[[Floats], Floats]] = {
    "0 … 1": lambda x: x,
    "0 … 255": lambda x: 255 * x,
    "-1 … 1": lambda x: 2 * x - 1,
    "normalized": lambda x: (x - np.float32(0.45)) / np.float32(0.225),
}


def _images(count: int, seed: int) -> Floats:
    """Images of different brightness, 0 … 1."""
    rng = np.random.default_rng(seed)
    shades = rng.uniform(0.1, 0.9, (count, 3, 1, 1)) + rng.normal(0, 0.25, (count, 3, 4, 4))
    return np.clip(shades, 0, 1).astype(np.float32)


def _check(calibration: Floats, evaluation: Floats) -> tuple[object, ...]:
    stats = TensorStats()
    stats.update(calibration)
    known = InputQuantiles.from_statistics(["x"], {"x": stats}, len(calibration))
    check = InputShiftCheck(known)
    for row in evaluation:
        check.add(Sample("", {"x": row}))
    return check.find()


@pytest.mark.parametrize("calibrated", SCALES)
@pytest.mark.parametrize("evaluated", SCALES)
@pytest.mark.parametrize("count", [12, 200])
def test_a2_another_scale_or_mean_is_found_and_the_same_is_not(
    calibrated: str, evaluated: str, count: int
) -> None:
    found = _check(SCALES[calibrated](_images(40, 1)), SCALES[evaluated](_images(count, 2)))
    assert len(found) == (calibrated != evaluated)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, shape: rng.normal(size=shape),
        lambda rng, shape: rng.standard_t(2, size=shape),
        lambda rng, shape: rng.exponential(size=shape),
        lambda rng, shape: rng.normal(size=(shape[0], 1)) + 0.1 * rng.normal(size=shape),
        lambda rng, shape: np.exp(rng.normal(size=(shape[0], 1))) * rng.normal(size=shape),
    ],
    ids=["normal", "heavy tails", "skewed", "a level for each sample", "loud and silent"],
)
def test_a2_small_random_data_raise_no_alarm(
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats],
) -> None:
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(100):
        one, other = rng.integers(2, 40, 2)
        alarms += len(
            _check(draw(rng, (one, 30)).astype("f4"), draw(rng, (other, 30)).astype("f4"))
        )
    assert alarms <= 2  # the significance level


def test_a2_the_sample_data_raise_no_alarm_not_even_class_by_class() -> None:
    def read(paths: Iterable[Path]) -> Floats:
        return np.stack([np.asarray(Image.open(path), np.float32) for path in paths]) / 255

    calibration = read(sorted(IMAGES.glob("calibration/**/*.png"))[::4])
    folders = sorted(path for path in (IMAGES / "evaluation").iterdir() if path.is_dir())
    assert len(folders) == 10
    everything = [read(sorted(folder.glob("*.png"))[:12]) for folder in folders]
    for evaluation in (*everything, np.concatenate(everything)):
        assert _check(calibration, evaluation) == ()
        assert len(_check((calibration - 0.286) / 0.353, evaluation)) == 1


def test_a2_masks_integers_and_infinities_have_no_scale() -> None:
    ones = np.ones((20, 4), np.float32)
    assert _check(ones, np.zeros((20, 4), np.float32)) == ()
    assert _check(ones, np.eye(20, 4, dtype=np.float32)) == ()
    assert _check(np.eye(20, 4, dtype=np.float32), 9 * ones) == ()
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    masked = rows.copy()
    masked[:, 0] = -np.inf
    assert _check(rows[:20], masked[20:]) == ()
    check = InputShiftCheck(InputQuantiles(20, {"x": tuple(np.linspace(0, 1, len(LEVELS)))}))
    for _ in range(20):
        check.add(Sample("", {"x": np.full((4,), 900)}))
    assert check.find() == ()


@pytest.mark.parametrize("constant", [0.0, 1.0, 100 / 3])
def test_a_constant_calibration_input_is_found_where_others_vary(constant: float) -> None:
    same = np.full((20, 4), constant, np.float32)
    assert _check(same, same) == ()  # 4 digits of it are another value
    [found] = _check(same, np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32))
    assert f"outside the calibration range ({constant:.3g} … {constant:.3g})" in str(found)
    record = {"calibration_inputs": {"x": [constant] * len(LEVELS)}, "calibration_samples": 20}
    assert InputQuantiles.from_record(record) is not None


def test_a2_every_verb_warns_once_of_arrays_prepared_otherwise(tmp_path: Path) -> None:
    calibration = {"x": _images(40, 1)}
    other = {"x": SCALES["normalized"](_images(40, 2))}
    result = ptq.quantize(MODEL, calibration, eval_data=other, threads=1, effort="fast")
    result.save(tmp_path / "q.onnx")
    ranking = ptq.sensitivity(MODEL, calibration, eval_data=other, measure=0, threads=1)
    for warnings in (
        result.report.warnings,
        ptq.evaluate(result, other, threads=1).warnings,
        ptq.evaluate(tmp_path / "q.onnx", iter([(row,) for row in other["x"]]), threads=1).warnings,
        ptq.compare(MODEL, tmp_path / "q.onnx", other, threads=1).warnings,
        ranking.warnings,
    ):
        [text] = [warning for warning in warnings if "outside the calibration range" in warning]
        assert text.startswith("model input x, evaluation samples: ")
        assert text.endswith(
            "; prepare them as the calibration samples: with the same scale, mean and std"
        )
    honest = {"x": _images(40, 2)}
    assert not [w for w in ptq.evaluate(result, honest, threads=1).warnings if "range" in w]


@pytest.mark.parametrize(
    "record", [None, {}, {"calibration_inputs": {"x": [3, 1]}, "calibration_samples": 4},
               {"calibration_inputs": 3, "calibration_samples": 4}],
)  # fmt: skip
def test_a2_a_record_without_sound_quantiles_is_left_out(record: dict[str, object] | None) -> None:
    assert InputQuantiles.from_record(record) is None
