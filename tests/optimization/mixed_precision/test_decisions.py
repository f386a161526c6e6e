"""Samples that hold most decisions, and how many are read to count them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from networks import build_network

from ptq.core.run_options import RunOptions
from ptq.data import Sample, open_samples
from ptq.data.splits import list_input_specs
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.model.graph import Graph
from ptq.optimization.effort import EFFORTS, EffortName
from ptq.optimization.mixed_precision.knee.decisions import CountedDecisions, count_decisions
from ptq.optimization.mixed_precision.knee.knee_sets import FloatSet
from ptq.optimization.mixed_precision.knee.saved_decisions import (
    SavedDecisions,
    choose_by_decisions,
    count_saved_decisions,
)
from ptq.solver.recipe import Recipe

CELLS = 40
TASK: Any = None


def _name_samples(count: int) -> list[Sample]:
    return [Sample(f"s{k}", {}) for k in range(count)]


def test_the_samples_with_most_decisions_are_chosen_in_their_order() -> None:
    found = CountedDecisions(TASK, _name_samples(5), [1, 7, 0, 9, 7], 0.1).choose_samples(3)
    assert found is not None
    assert [sample.name for sample in found] == ["s1", "s3", "s4"]


def test_samples_with_equally_many_decisions_are_not_chosen_by_them() -> None:
    assert CountedDecisions(TASK, _name_samples(3), [1, 1, 1], 0.1).choose_samples(2) is None


def _make_job(samples: np.ndarray, folder: Path, *shifts: float) -> tuple[Any, list[Graph]]:
    """A job of a network that copies boxes, and networks that lower their scores by ``shifts``."""
    shape = {"x": (1, 7, CELLS), "image": (1, 3, 8, 8)}
    nodes = "z = ReduceMax<keepdims = 0>(image)\nw = Mul(z, zero)\ns = Sub(x, d)\ny = Add(s, w)"
    lower = np.array([0, 0, 0, 0, 1, 1, 1], np.float32).reshape(1, 7, 1)
    zero = np.zeros((), np.float32)
    plain, *others = (
        Graph.from_proto(build_network(nodes, shape, d=(k * lower).astype(np.float32), zero=zero))
        for k in (0.0, *shifts)
    )
    images = np.zeros((len(samples), 3, 8, 8), np.float32)
    np.savez(folder / "samples.npz", x=samples.astype(np.float32), image=images)
    job: Any = SimpleNamespace(
        samples=SimpleNamespace(
            calibration=open_samples(folder / "samples.npz", list_input_specs(plain))
        ),
        source=plain,
        prepared=SimpleNamespace(graph=plain),
        run=RunOptions(threads=1),
        options=SimpleNamespace(task=None),
        effort=EFFORTS["default"],
    )
    return job, others


def _count(
    samples: np.ndarray, folder: Path, shift: float, effort: EffortName = "default"
) -> CountedDecisions | None:
    job, (other,) = _make_job(samples, folder, shift)
    job.effort = EFFORTS[effort]
    made: Any = SimpleNamespace(quantized_graph=other)
    return count_decisions(job, made, SessionCache(job.run))


def _images(objects: list[int]) -> np.ndarray:
    """Heads like YOLOv8's, with so many objects of score 0.3 in each image."""
    found = np.zeros((len(objects), 7, CELLS))
    found[:, :2] = 30 * np.arange(CELLS) + 15
    found[:, 2:4] = 20
    for image, count in zip(found, objects, strict=True):
        image[5, :count] = 0.3
    return found


def test_images_with_different_numbers_of_boxes_are_read_on_half_of_all(tmp_path: Path) -> None:
    objects = [1] * 40 + [3] * 40
    found = _count(_images(objects), tmp_path, shift=0.1)
    assert found is not None
    assert len(found.samples) == 40
    assert sorted(set(found.total)) == [1, 3]
    assert found.changed == 1


@pytest.mark.parametrize(("shift", "changed"), [(0.1, 1.0), (0.0, 0.0)])
def test_images_with_equally_many_boxes_are_read_on_16(
    tmp_path: Path, shift: float, changed: float
) -> None:
    found = _count(_images([2] * 80), tmp_path, shift)
    assert found is not None
    assert (len(found.samples), found.changed) == (16, changed)


def test_the_best_effort_reads_64_images(tmp_path: Path) -> None:
    found = _count(_images([2] * 80), tmp_path, 0.1, "best")
    assert found is not None
    assert len(found.samples) == 64


@pytest.mark.parametrize(("shifts", "lost"), [((0.1, 0.0), (150, 0)), ((0.0, 0.1), (0, 150))])
def test_saved_boxes_are_those_that_the_second_model_does_not_change(
    shifts: tuple[float, float], lost: tuple[int, int], tmp_path: Path
) -> None:
    job, graphs = _make_job(_images([2] * 45 + [4] * 15), tmp_path, *shifts)
    made: Any = SimpleNamespace(quantized_graph=graphs[0])
    counted = count_decisions(job, made, SessionCache(job.run))
    assert counted is not None
    (saved,) = count_saved_decisions(job, counted.task, graphs[0], graphs[1:])
    assert (saved.samples, saved.total) == (60, 150)
    assert (saved.all_int8, saved.with_floats) == lost
    assert saved.justify(0.15) == (lost[1] < lost[0])


def test_the_interval_of_saved_decisions_is_that_of_pairs() -> None:
    """Both models lose half of the boxes, in other samples or in the same ones."""
    odd = np.arange(60) % 2
    same = SavedDecisions.from_rows(np.stack([odd, odd, np.ones(60)], axis=1).astype(float))
    other = SavedDecisions.from_rows(np.stack([odd, 1 - odd, np.ones(60)], axis=1).astype(float))
    assert same.interval == (0, 0)
    assert other.interval[0] < -0.15 < 0.15 < other.interval[1]
    assert not same.justify(0.0)
    assert str(same) == (
        "30 instead of 30 of 60 decisions change on 60 samples (+0.0 points, 95 % CI +0.0 … +0.0)"
    )


@pytest.mark.parametrize(
    ("left", "made", "least", "spent", "justified"),
    [
        (3.0, 300.0, 0.0, 0.05, True),
        (3.0, 300.0, 0.001, 0.06, False),
        (3.0, 200.0, 0.001, 0.06, True),
        (3.0, 200.0, 0.0, 0.06, False),  # by chance
        (4.0, 50.0, 0.001, 0.01, False),
    ],
)
def test_much_time_is_not_spent_on_few_boxes_nor_on_chance(
    left: float, made: float, least: float, spent: float, justified: bool
) -> None:
    assert SavedDecisions(9, made, 5.0, left, (least, 0.1)).justify(spent) == justified


CHEAP = FloatSet(frozenset(["cheap"]), 0.03, 0.5)
EXPENSIVE = FloatSet(frozenset(["expensive"]), 0.15, 0.2)


@pytest.mark.parametrize(
    ("cheap", "expensive", "least", "chosen"),
    [
        (3.0, 2.0, 0.01, "cheap"),  # one box more is chance
        (3.0, 1.0, 0.01, "expensive"),
        (5.0, 1.0, 0.01, "expensive"),
        (1.0, 4.0, 0.01, "cheap"),
        (5.0, 4.0, 0.01, ""),
        (3.0, 1.0, 0.0, "cheap"),
        (5.0, 1.0, 0.0, ""),
    ],
)
def test_more_expensive_float_nodes_must_save_more_boxes(
    cheap: float, expensive: float, least: float, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in integers changes 5 of 60; the counts are given."""
    place = "ptq.optimization.mixed_precision.knee.saved_decisions"
    saved = [SavedDecisions(9, 60.0, 5.0, left, (least, 0.1)) for left in (cheap, expensive)]
    monkeypatch.setattr(f"{place}.count_saved_decisions", lambda *_: saved)
    quantized = SimpleNamespace(quantized_graph=None)
    monkeypatch.setattr(f"{place}.quantize_with", lambda *_, floats: quantized)
    anything: Any = SimpleNamespace(
        calibrated_model=None, recipe=Recipe(), quantized_graph=None, task=None, vary=True
    )
    sets = [CHEAP, FloatSet(frozenset(["between"]), 0.06, 0.4), EXPENSIVE]
    found, counts = choose_by_decisions(anything, anything, anything, sets)
    assert found == {"cheap": CHEAP, "expensive": EXPENSIVE}.get(chosen)
    assert counts == saved[chosen != "cheap"]


def test_without_samples_of_different_numbers_of_decisions_the_most_expensive_is_taken() -> None:
    anything: Any = SimpleNamespace(vary=False)
    sets = [CHEAP, EXPENSIVE]
    assert choose_by_decisions(anything, anything, anything, sets) == (EXPENSIVE, None)
    assert choose_by_decisions(anything, None, anything, sets) == (EXPENSIVE, None)
