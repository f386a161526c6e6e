"""What is known to ruin models, planted; and sound models, in which nothing is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hard import SAMPLE_DATA

import ptq
from ptq.data import Preprocess, open_samples
from ptq.data.fit import InputSpec
from ptq.graph import Graph
from ptq.mismatch import mismatch
from ptq.observers.stats import TensorStats
from ptq.plan import Plan
from ptq.report import Suspect, TensorRow
from ptq.session import Session
from ptq.suspects import suspects
from ptq.types import UINT8, QuantParams

IMAGES = Preprocess(mean=(0.286,), std=(0.353,))
SPEC = InputSpec("input", np.dtype(np.float32), (None, 1, 28, 28))
EMPTY = Plan("ort", "")


def test_nothing_is_found_in_the_sample_as_it_should_be_used() -> None:
    report = ptq.quantize(
        SAMPLE_DATA / "fashion_mobilenet.onnx",
        SAMPLE_DATA / "images" / "calibration",
        preprocess=IMAGES,
        samples=20,
        rounding="nearest",
        threads=1,
    ).report
    assert report.suspects == ()


def _mismatch(preprocess: Preprocess) -> Suspect | None:
    session = Session(Graph.load(SAMPLE_DATA / "fashion_mobilenet.onnx"), threads=1)
    images = open_samples(SAMPLE_DATA / "images" / "evaluation", [SPEC], preprocess)
    return mismatch(session, images, 0)


def test_images_in_0_to_255_for_a_model_of_0_to_1_are_found_and_the_options_named() -> None:
    found = _mismatch(replace(IMAGES, scale=1.0))
    assert found is not None
    assert "--scale 0.003921568627 --mean 0.286 --std 0.353" in found.advice


def test_nothing_is_proposed_for_images_as_the_model_wants_them() -> None:
    assert _mismatch(IMAGES) is None


def test_few_samples_and_samples_of_one_class_are_found() -> None:
    everything = open_samples(SAMPLE_DATA / "images" / "calibration", [SPEC], IMAGES)
    bags = everything.subset(lambda name: name.startswith("8_bag"))
    (one_class,) = suspects(EMPTY, {}, (), bags)
    assert "all are of one class, 8_bag, of 10" in str(one_class)
    (few,) = suspects(EMPTY, {}, (), everything.spread(4))
    assert "4 samples alone" in str(few)
    assert suspects(EMPTY, {}, (), everything) == ()


ROW = TensorRow("d", "activation", 9.0, 1.0, 0.0, 0.0, 1.0, "observed: mse")


@pytest.mark.parametrize(
    ("reach", "db", "found"), [(100.0, 9.0, False), (1e5, 40.0, False), (1e5, 9.0, True)]
)
def test_a_tensor_a_thousand_times_the_median_is_found_where_it_suffers(
    reach: float, db: float, found: bool
) -> None:
    stats = {}
    for name, size in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", reach)):
        stats[name] = TensorStats()
        stats[name].update(np.float32([-size, 0.0, size]))
    params = dict.fromkeys(stats, QuantParams.whole(1.0, 0, UINT8))
    plan = replace(EMPTY, tensors=params)
    rows = (replace(ROW, sqnr_db=db),)
    assert [s.where for s in suspects(plan, stats, rows, None)] == (["d"] if found else [])


def test_a_bias_that_widens_its_weights_scale_is_found_where_the_weight_suffers() -> None:
    why = "derived: 3 scale(s) widened up to 7 times for the bias to fit int32"
    weight = replace(ROW, name="w", kind="weight", why=why)
    (found,) = suspects(EMPTY, {}, (weight, replace(weight, name="v", sqnr_db=38.0)), None)
    assert found.where == "w"


def test_a_scale_that_is_shared_at_a_cost_is_found() -> None:
    poor = replace(ROW, name="box", sqnr_db=-1.0, why="same: y, through cat")
    fine = replace(poor, name="score", sqnr_db=30.0)
    own = replace(ROW, name="own")
    (found,) = suspects(EMPTY, {}, (poor, fine, own), None)
    assert found.where == "box"
    assert "through cat" in found.what


@pytest.mark.parametrize(
    ("way", "depth", "count"),
    [
        (None, 3, 1),
        (Preprocess(mean=(0.5,), std=(0.5,)), 3, 0),
        (Preprocess(scale=1.0), 3, 0),
        (None, 1, 0),
    ],
)
def test_colours_without_normalization_are_worth_a_look_and_gray_is_not(
    way: Preprocess | None, depth: int, count: int
) -> None:
    spec = InputSpec("input", np.dtype(np.float32), (None, depth, 28, 28))
    images = open_samples(SAMPLE_DATA / "images" / "calibration", [spec], way)
    found = suspects(EMPTY, {}, (), images)
    assert [s.where for s in found] == ["preprocessing"] * count
    assert all("--mean 0.485,0.456,0.406" in s.advice for s in found)
