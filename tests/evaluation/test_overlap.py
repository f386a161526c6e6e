"""Evaluation samples that set ranges too are named; the data given are the oracle."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.data.sample_digest import digest_feed
from ptq.data.splits import SampleSplit
from ptq.evaluation.checks.overlap_check import find_overlap
from ptq.observers.calibration_file import from_bytes
from ptq.observers.sample_prefixes import LIMIT, keep_prefixes, merge_prefixes

MODEL = build_network(
    "y = Gemm(x, w, b)", {"x": ("n", 8)}, w=gaussian_array(8, 4), b=gaussian_array(4)
)
DATA = gaussian_array(60, 8, seed=1)
OTHER = gaussian_array(40, 8, seed=2)
RANDOM = np.random.default_rng(0).integers(0, 256, (LIMIT, 8), np.uint8)


def report_of(data: np.ndarray, evaluation: np.ndarray | None) -> ptq.Report:
    return ptq.quantize(MODEL, data, eval_data=evaluation, threads=1).report


def _first_about_data(report: ptq.Report) -> str:
    """The first warning, apart from one of size and speed, which depends on the machine."""
    return next(str(suspect) for suspect in report.suspects if not suspect.headline)


def test_s2_the_same_samples_for_both_are_on_calibration_samples() -> None:
    report = report_of(DATA, DATA[::-1].copy())
    assert report.evaluated_on == "on calibration samples"
    assert report.shared_samples == 60
    assert report.calibration_digest == report.evaluation_digest
    assert _first_about_data(report).startswith("evaluation samples: all of 60 samples are also")


@pytest.mark.parametrize(
    ("effort", "max_drop", "rows", "measured"),
    [
        ("fast", None, 40, 16),
        ("fast", None, 10, 10),
        ("fast", 50.0, 40, 40),
        ("fast", None, 60, 12),
        ("default", None, 40, 40),
    ],
)
def test_fast_measures_few_of_the_samples_that_set_all_ranges(
    effort: str, max_drop: float | None, rows: int, measured: int
) -> None:
    report = ptq.quantize(MODEL, DATA[:rows], effort=effort, max_drop=max_drop, threads=1).report
    assert report.calibration_samples == (48 if rows == 60 else rows)
    assert report.evaluation is not None
    assert report.evaluation.samples == measured
    if rows < 60:
        assert report.evaluated_on == "on calibration samples"
        assert report.shared_samples == measured


def test_s2_an_overlap_is_counted_in_the_heading_the_warnings_and_the_json() -> None:
    report = report_of(DATA, np.concatenate([OTHER, DATA[:7]]))
    assert report.evaluated_on == "on 47 evaluation samples, 7 of them also calibration samples"
    assert _first_about_data(report).startswith("evaluation samples: 7 of 47 samples are also")
    assert json.loads(report.to_json())["shared_samples"] == 7


def test_repeated_samples_are_not_held_out() -> None:
    report = report_of(np.concatenate([DATA, DATA]), None)
    assert report.shared_samples > 0
    assert "samples held out from calibration, " in report.evaluated_on
    assert report.evaluated_on.endswith(f"{report.shared_samples} of them also calibration samples")


@pytest.mark.parametrize("evaluation", [OTHER, None], ids=["other", "held out"])
def test_separate_samples_are_not_named(evaluation: np.ndarray | None) -> None:
    report = report_of(DATA, evaluation)
    assert report.shared_samples == 0
    assert "also" not in report.evaluated_on
    assert report.calibration_digest != report.evaluation_digest


def test_samples_that_statistics_count_are_named_when_only_statistics_are_given() -> None:
    stats = from_bytes(ptq.calibrate(MODEL, DATA, threads=1).to_bytes(), "s.npz")
    both = np.concatenate([OTHER, DATA[:7]])
    report = ptq.quantize(MODEL, stats=stats, eval_data=both, equalize=False, threads=1).report
    assert report.evaluated_on == "on 47 evaluation samples, 7 of them also calibration samples"
    assert _first_about_data(report).startswith("evaluation samples: 7 of 47 samples are also")
    report = ptq.quantize(MODEL, stats=stats, eval_data=DATA, equalize=False, threads=1).report
    assert report.evaluated_on == "on calibration samples"


def test_nothing_is_said_of_statistics_that_do_not_name_their_samples() -> None:
    stats = replace(ptq.calibrate(MODEL, DATA, threads=1), contents=None)
    old = from_bytes(stats.to_bytes(), "s.npz")
    assert old.contents is None
    report = ptq.quantize(MODEL, stats=old, eval_data=DATA, equalize=False, threads=1).report
    assert (report.evaluated_on, report.shared_samples) == ("on evaluation samples", 0)


def test_the_digests_of_shards_are_those_of_the_whole_and_a_prefix_of_any_order() -> None:
    digests = [digest_feed({"x": row}) for row in gaussian_array(LIMIT + 50, 4)]
    whole = keep_prefixes(digests)
    assert len(whole) == LIMIT
    assert merge_prefixes(keep_prefixes(digests[1::2]), keep_prefixes(digests[::2])) == whole
    shards = [ptq.calibrate(MODEL, DATA, shard=(k, 2), threads=1) for k in (1, 0)]
    assert shards[0].merge(shards[1]).to_bytes() == ptq.calibrate(MODEL, DATA).to_bytes()


def rows_read(values: np.ndarray) -> ptq.Samples:
    samples = ptq.open_samples({"x": values}, [ptq.data.InputSpec("x", DATA.dtype, (None, 8))])
    assert len(list(samples)) == len(values)
    return samples


def test_shared_samples_are_counted_by_content() -> None:
    evaluation = rows_read(np.concatenate([DATA[[2, 0, 0]], DATA + 100]))
    for calibration, count in ((DATA, 3), (DATA[1:2], 0)):
        split = SampleSplit(rows_read(calibration), evaluation, "on evaluation samples")
        assert find_overlap(split).count == count


IMAGES = np.random.default_rng(8).integers(0, 256, (40, 1, 3, 8, 8)).astype(np.uint8)


def images_read(values: np.ndarray) -> ptq.Samples:
    spec = ptq.data.InputSpec("x", np.dtype(np.float32), (None, *values.shape[2:]))
    samples = ptq.open_samples({"x": values[:, 0].astype(np.float32)}, [spec])
    assert len(list(samples)) == len(values)
    return samples


@pytest.mark.parametrize("channels_last", [False, True])
def test_a5_images_of_two_preprocessors_are_the_same_samples(channels_last: bool) -> None:
    one = IMAGES / np.float32(255)
    mean, std = (np.reshape(v, (3, 1, 1)) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    other = ((IMAGES[30:, :, ::-1] - 255 * mean) / (255 * std)).astype(np.float32)
    new = np.random.default_rng(9).integers(0, 256, (5, 1, 3, 8, 8)).astype(np.float32)
    evaluation = np.concatenate([other, new])
    if channels_last:
        one, evaluation = (np.moveaxis(values, 2, -1) for values in (one, evaluation))
    split = SampleSplit(images_read(one), images_read(evaluation), "on evaluation samples")
    known = keep_prefixes(chain.from_iterable(images_read(one).fingerprints.values()))
    for found in (find_overlap(split), find_overlap(replace(split, calibration=None), known)):
        assert found.count == 10
        assert found.warnings[0].what == (
            "10 of 15 samples are also calibration samples, some of them up to scale, mean and std"
        )
    assert find_overlap(replace(split, evaluation=images_read(evaluation[10:]))).count == 0


def test_a5_plain_images_of_the_same_order_are_not_taken_for_the_same() -> None:
    shades = np.linspace(0, 1, 20, dtype=np.float32).reshape(20, 1, 1, 1, 1)
    plain = np.broadcast_to(shades, (20, 1, 1, 8, 8)) * (np.arange(64).reshape(8, 8) % 15 + 1)
    split = SampleSplit(images_read(plain[:10]), images_read(plain[10:]), "on evaluation samples")
    assert find_overlap(split).count == 0


def test_of_more_samples_than_statistics_name_the_overlap_is_at_least_so_many() -> None:
    evaluation = rows_read(DATA)
    many = keep_prefixes([*list(evaluation.digests.values())[:5], *map(bytes, RANDOM)])
    found = find_overlap(SampleSplit(None, evaluation, "on evaluation samples"), many)
    assert found.description == (
        f"on 60 evaluation samples, at least {found.count} of them also calibration samples"
    )
    assert 0 < found.count <= 5
