"""What is known to ruin models, planted; and sound models, in which nothing is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from hard import SAMPLE_DATA
from networks import build_network, gaussian_array, random_feeds
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import ptq
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.types import UINT8, QuantParams
from ptq.data import Preprocess, open_samples
from ptq.data.input_spec import InputSpec
from ptq.data.splits import list_input_specs
from ptq.evaluation.checks.input_range_check import check_input_statistics
from ptq.evaluation.checks.preprocessing_check import find_better_preprocessing
from ptq.evaluation.diagnostics import diagnose, find_fixed_tensors
from ptq.evaluation.report.report_data import Diagnosis, TensorRow
from ptq.evaluation.runs.engines import make_session_engine
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.stats import TensorStats

RUN = RunOptions(threads=1)
MODEL = "the float model"
IMAGES = Preprocess(mean=(0.286,), std=(0.353,))
MODEL, PHOTOS = SAMPLE_DATA / "fashion_mobilenet.onnx", SAMPLE_DATA / "images" / "evaluation"
SPEC = InputSpec("input", np.dtype(np.float32), (None, 1, 28, 28))
EMPTY = Plan("ort", "")


def test_nothing_is_found_in_the_sample_as_it_should_be_used() -> None:
    report = ptq.quantize(
        SAMPLE_DATA / "fashion_mobilenet.onnx",
        SAMPLE_DATA / "images" / "calibration",
        eval_data=SAMPLE_DATA / "images" / "evaluation",
        preprocess=IMAGES,
        samples=30,
        effort="fast",
        rounding="nearest",
        threads=1,
    ).report
    # a busy machine may measure a speed below float's
    assert [found for found in report.suspects if found.topic != "slower-than-float"] == []


def _mismatch(preprocess: Preprocess) -> Diagnosis | None:
    session = Session(Graph.load(SAMPLE_DATA / "fashion_mobilenet.onnx"), threads=1)
    images = open_samples(SAMPLE_DATA / "images" / "evaluation", [SPEC], preprocess)
    return find_better_preprocessing(make_session_engine(session), images, 0, MODEL, permuted=False)


def test_images_in_0_to_255_for_a_model_of_0_to_1_are_found_and_the_options_named() -> None:
    found = _mismatch(replace(IMAGES, scale=1.0))
    assert found is not None
    assert "scale 1/255, mean 0.286, std 0.353" in found.advice


def _evaluate(way: Preprocess) -> Sequence[Diagnosis]:
    return ptq.evaluate(MODEL, PHOTOS, preprocess=way, samples=100, threads=1).suspects


def _compare(way: Preprocess) -> Sequence[Diagnosis]:
    return ptq.compare(MODEL, MODEL, PHOTOS, preprocess=way, samples=100, threads=1).suspects


def _rank(way: Preprocess) -> Sequence[Diagnosis]:
    return ptq.sensitivity(
        MODEL, PHOTOS, preprocess=way, eval_data=PHOTOS, samples=10, measure=0, method="minmax",
        equalize=False, threads=1,
    ).suspects  # fmt: skip


@pytest.mark.parametrize("verb", [_evaluate, _compare, _rank])
def test_d6_every_verb_that_measures_doubts_the_preprocessing(
    verb: Callable[[Preprocess], Sequence[Diagnosis]],
) -> None:
    (found,) = verb(Preprocess(scale=1.0))
    assert found.serious
    assert "samples right, but" in found.what
    assert "scale 1/255" in found.advice
    assert verb(Preprocess())[-1].what == (
        "gray values of 0 … 1 are assumed, because no scale, mean and std are given"
    )
    assert verb(IMAGES) == ()


def test_nothing_is_proposed_for_images_as_the_model_wants_them() -> None:
    assert _mismatch(IMAGES) is None


@pytest.mark.parametrize(("fed", "proposed"), [("BGR", "RGB"), ("RGB", None)])
def test_swapped_colours_are_found_and_the_order_named(
    tmp_path: Path, fed: Literal["RGB", "BGR"], proposed: str | None
) -> None:
    """A network whose class is the brightest colour of red, green and blue."""
    rng = np.random.default_rng(4)
    for index in range(60):
        pixels = rng.integers(0, 90, (8, 8, 3), np.uint8)
        pixels[:, :, index % 3] += 90
        folder = tmp_path / str(index % 3)
        folder.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    nodes = "p = GlobalAveragePool(x)\ny = Flatten(p)"
    model = Graph.from_proto(build_network(nodes, {"x": ("n", 3, 8, 8)}))
    way = Preprocess(channels=fed, mean=(0.0,), std=(1.0,))
    images = open_samples(tmp_path, list_input_specs(model), way)
    found = find_better_preprocessing(
        make_session_engine(Session(model, threads=1)), images, 0, MODEL, permuted=False
    )
    assert (found is None) == (proposed is None)
    assert found is None or f"channels {proposed}, " in found.advice


def test_few_samples_and_samples_of_one_class_are_found(tmp_path: Path) -> None:
    everything = open_samples(SAMPLE_DATA / "images" / "calibration", [SPEC], IMAGES)
    bags = everything.subset(lambda name: name.startswith("8_bag"))
    (one_class,) = diagnose(EMPTY, {}, (), bags)
    assert "all belong to one class of 10: 8_bag" in str(one_class)
    folder = tmp_path / "8_bag"
    folder.mkdir()
    for name in bags.names:
        shutil.copy(SAMPLE_DATA / "images" / "calibration" / name, folder)
    alone = open_samples(tmp_path, [SPEC], IMAGES)
    assert diagnose(EMPTY, {}, (), alone) == ()  # nothing says that there are other classes
    assert diagnose(EMPTY, {}, (), alone, classes=10) == (one_class,)
    (few,) = diagnose(EMPTY, {}, (), everything.spread(4))
    assert "only 4 samples" in str(few)
    assert diagnose(EMPTY, {}, (), everything) == ()


@pytest.mark.parametrize(("repeated", "found"), [(21, False), (22, True)])
def test_samples_most_of_which_are_the_same_are_found(repeated: int, found: bool) -> None:
    rows = np.arange(40 * 4, dtype=np.float32).reshape(40, 4)
    rows[:repeated] = 0
    samples = open_samples({"x": rows}, [InputSpec("x", np.dtype(np.float32), (None, 4))])
    assert sum(1 for _ in samples) == 40  # diagnoses know the samples that were read
    same = Diagnosis(
        "only 19 of 40 are distinct",
        "calibration samples",
        "give different ones; a list of one array that is filled again needs copies",
        serious=True,
    )
    assert diagnose(EMPTY, {}, (), samples) == ((same,) if found else ())


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
    params = dict.fromkeys(stats, QuantParams.per_tensor(1.0, 0, UINT8))
    plan = replace(EMPTY, tensors=params)
    rows = (replace(ROW, sqnr_db=db),)
    assert [s.where for s in diagnose(plan, stats, rows, None)] == (["d"] if found else [])


def test_a_bias_that_widens_its_weights_scale_is_found_where_the_weight_suffers() -> None:
    why = "derived: 3 scale(s) widened up to 7 times for the bias to fit int32"
    weight = replace(ROW, name="w", kind="weight", why=why)
    (found,) = diagnose(EMPTY, {}, (weight, replace(weight, name="v", sqnr_db=38.0)), None)
    assert found.where == "w"


def test_a_scale_that_is_shared_at_a_cost_is_found() -> None:
    poor = replace(ROW, name="box", sqnr_db=-1.0, why="same: y, through cat")
    fine = replace(poor, name="score", sqnr_db=30.0)
    own = replace(ROW, name="own")
    (found,) = diagnose(EMPTY, {}, (poor, fine, own), None)
    assert found.where == "box"
    assert "through cat" in found.what


@pytest.mark.parametrize(
    ("way", "depth", "count"),
    [
        (None, 3, 1),
        (Preprocess(mean=(0.5,), std=(0.5,)), 3, 0),
        (Preprocess(scale=1.0), 3, 0),
        (None, 1, 1),
    ],
)
def test_values_that_were_assumed_are_worth_a_look_with_how_to_say_otherwise(
    way: Preprocess | None, depth: int, count: int
) -> None:
    spec = InputSpec("input", np.dtype(np.float32), (None, depth, 28, 28))
    images = open_samples(SAMPLE_DATA / "images" / "calibration", [spec], way)
    found = diagnose(EMPTY, {}, (), images)
    assert [s.where for s in found] == ["preprocessing"] * count
    assert all("mean 0 and std 1 for plain 0 … 1" in s.advice for s in found)


def test_plain_values_are_proposed_where_they_suit_better_than_those_assumed() -> None:
    given = onnx.load(SAMPLE_DATA / "fashion_mobilenet.onnx")
    # three equal channels, one of which is used: a colour network of the sample's accuracy on 0 … 1
    pick = np.zeros((1, 3, 1, 1), np.float32)
    pick[0, 0] = 1 / 0.353
    plain = [
        helper.make_node("Conv", ["colours", "pick", "shift"], ["input"]),
        *given.graph.node,
    ]
    graph = helper.make_graph(
        plain,
        "colour",
        [helper.make_tensor_value_info("colours", TensorProto.FLOAT, ["n", 3, 28, 28])],
        given.graph.output,
        [
            *given.graph.initializer,
            numpy_helper.from_array(pick, "pick"),
            numpy_helper.from_array(np.float32([-0.286 / 0.353]), "shift"),
        ],
    )
    colour = helper.make_model(graph, opset_imports=given.opset_import, ir_version=8)
    model = Graph.from_proto(colour)
    images = open_samples(SAMPLE_DATA / "images" / "evaluation", list_input_specs(model))
    assert images.preprocess is not None
    assert images.preprocess.assumed
    found = find_better_preprocessing(
        make_session_engine(Session(model, threads=1)), images, 0, MODEL, permuted=False
    )
    assert found is not None
    assert "channels RGB, scale 1/255, or" in found.advice


@pytest.mark.parametrize(
    "fed",
    [replace(IMAGES, mean=None, std=None), replace(IMAGES, scale=1.0), replace(IMAGES, std=None)],
)
def test_samples_on_another_scale_than_the_first_normalization_knows_are_found(
    fed: Preprocess,
) -> None:
    graph = Graph.load(SAMPLE_DATA / "fashion_mobilenet.onnx")
    found = check_input_statistics(
        graph, open_samples(SAMPLE_DATA / "images" / "calibration", [SPEC], fed), run=RUN
    )
    assert found is not None
    assert "times that in training" in found.what


def test_a_normalization_of_the_input_itself_is_read_off_the_samples() -> None:
    values = {"scale": 1.0, "bias": 0.0, "mean": 120.0, "var": 3600.0}
    node = helper.make_node("BatchNormalization", ["x", *values], ["y"], name="norm")
    graph = helper.make_graph(
        [node],
        "normalized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [numpy_helper.from_array(np.full(3, v, np.float32), k) for k, v in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    pixels = np.random.default_rng(0).uniform(0, 255, (8, 3, 8, 8)).astype(np.float32)
    opened = Graph.from_proto(model)
    specs = list_input_specs(opened)
    assert check_input_statistics(opened, open_samples({"x": pixels}, specs), run=RUN) is None
    assert (
        check_input_statistics(opened, open_samples({"x": pixels / 255}, specs), run=RUN)
        is not None
    )


def test_a_tensor_most_of_whose_channels_are_dead_is_found() -> None:
    array = np.abs(np.random.default_rng(0).normal(size=(4, 16, 5))).astype(np.float32)
    found = []
    for dead in (2, 9):
        array[:, :dead] = 0
        stats, sums = TensorStats(), ChannelSums(1)
        stats.update(array)
        sums.update(array)
        found.append(diagnose(EMPTY, {"t": stats}, [], None, {"t": sums}))
    assert found[0] == ()
    assert "9 of its 16 channels" in found[1][0].what


def test_the_first_state_of_a_recurrent_layer_has_no_dead_channels() -> None:
    model = build_network(
        "s = Shape(x)\nn = Gather(s, zero)\nd = Concat<axis = 0>(n, width)\nh = ConstantOfShape(d)\n"
        "p = Gemm(h, m, k)\nq = Gemm(x, v)\na = Add(p, q)\ny = Relu(a)",
        {"x": ("n", 16)},
        zero=np.zeros(1, np.int64),
        width=np.array([16]),
        m=gaussian_array(16, 16),
        k=gaussian_array(16),
        v=gaussian_array(16, 16),
    )
    assert find_fixed_tensors(Graph.from_proto(model)) == {"s", "n", "d", "h", "p"}
    report = ptq.quantize(model, random_feeds(model, 8), effort="fast", threads=1).report
    assert not [s for s in report.suspects if "channels are 0" in s.what]
