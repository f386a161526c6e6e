"""Samples whose answer changes: which are kept, and what is said of them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict

import numpy as np
import pytest
from networks import build_network
from PIL import Image

import ptq
from ptq.core.json_text import format_json
from ptq.data import Preprocess
from ptq.data.formats.thumbnail import MAX_PIXELS, draw_mask, draw_thumbnail
from ptq.evaluation.answers import Answer, ChangedSample
from ptq.evaluation.changed_samples import MAX_KEPT, ChangedSamples
from ptq.evaluation.presentation.changed import build_changed
from ptq.evaluation.tasks.box_heads import BoxHead
from ptq.evaluation.tasks.classify import ClassifyTask
from ptq.evaluation.tasks.ctc import CtcTask
from ptq.evaluation.tasks.detect import DetectTask
from ptq.evaluation.tasks.embed import EmbedTask
from ptq.evaluation.tasks.segment import SegmentTask
from ptq.evaluation.tasks.task import Example


def _scores(*classes: int) -> np.ndarray:
    scores = np.zeros((1, len(classes), 5), np.float32)
    scores[0, range(len(classes)), classes] = 1
    return scores


def _changed(task, pairs, metadata=None):
    found = ChangedSamples("int8", None, metadata or {})
    for number, (before, after) in enumerate(pairs):
        example = Example({"x": np.zeros((1, 3))}, {"y": before}, f"s{number}", (1,))
        found.add(task, example, {"int8": {"y": after}})
    return found


def test_equal_answers_are_not_kept():
    found = _changed(ClassifyTask("y"), [(_scores(1), _scores(1)), (_scores(1), _scores(2))])
    assert (found.count, [sample.name for sample in found.result()]) == (1, ["s1"])
    assert found.result()[0].reference.tokens == ("1",)
    assert found.result()[0].other.tokens == ("2",)


def test_at_most_so_many_are_kept_and_all_are_counted():
    pairs = [(_scores(1), _scores(2))] * (MAX_KEPT + 10)
    found = _changed(ClassifyTask("y"), pairs)
    assert found.count == MAX_KEPT + 10
    assert [sample.name for sample in found.result()] == [f"s{k}" for k in range(MAX_KEPT)]


def test_a_text_is_read_with_the_characters_of_the_classes_and_shown_as_a_difference():
    task = CtcTask("y", blank=0, alphabet=("", "a", "b", "c", *"4567"))
    pairs = [(_scores(1, 0, 2, 3), _scores(1, 0, 0, 3))]
    found = _changed(task, pairs, {})
    (sample,) = found.result()
    assert "".join(sample.reference.tokens) == "abc"
    assert "".join(sample.other.tokens) == "ac"
    section = build_changed(found.result(), found.count, 1, classes={})
    answers = dict(section.blocks[0].exhibits[0].answers)
    assert answers["float"] == (("span", "a"), ("del", "b"), ("span", "c"))
    assert answers["int8"] == (("span", "a"), ("span", "c"))


def test_the_names_of_classes_stand_in_the_page():
    found = _changed(ClassifyTask("y"), [(_scores(1), _scores(2))])
    section = build_changed(found.result(), 1, 1, classes={"cat": 1, "dog": 2})
    answers = dict(section.blocks[0].exhibits[0].answers)
    assert [answers[name] for name in ("label", "float", "int8")] == [
        (("span", "cat"),), (("span", "cat"),), (("span", "dog"),),
    ]  # fmt: skip


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_picture_is_the_image_before_its_normalization(layout):
    pixels = np.zeros((24, 32, 3), np.float64)
    pixels[:, 16:] = (255, 128, 0)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    array = ((pixels / 255 - mean) / std).astype(np.float32)[None]
    feed = {"x": array if layout == "NHWC" else array.transpose(0, 3, 1, 2)}
    done = Preprocess(scale=1 / 255, mean=mean, std=std, channels="RGB")
    drawn = np.asarray(Image.open(io.BytesIO(draw_thumbnail(feed, done))))
    assert np.abs(drawn.astype(float) - pixels).max() <= 1


def test_a_large_picture_becomes_a_small_file_and_what_is_no_image_none():
    large = np.random.default_rng(0).uniform(0, 1, (1, 3, 900, 700)).astype(np.float32)
    image = Image.open(io.BytesIO(draw_thumbnail({"x": large}, None)))
    assert image.format == "JPEG"
    assert max(image.size) == MAX_PIXELS
    assert draw_thumbnail({"x": np.zeros((1, 400), np.float32)}, None) == b""
    assert draw_thumbnail({"x": np.full((1, 3, 8, 8), np.nan, np.float32)}, None) == b""


def test_a_comparison_has_them_and_json_leaves_the_pictures_out(tmp_path):
    rng = np.random.default_rng(0)
    text = "f = Flatten(x)\n y = MatMul(f, w)"
    models = [
        build_network(
            text, {"x": ("N", 1, 8, 8)}, ["y"], w=rng.normal(size=(64, 4)).astype(np.float32)
        )
        for _ in range(2)
    ]
    images = rng.normal(size=(20, 1, 8, 8)).astype(np.float32)
    result = ptq.compare(*models, images, threads=1)
    assert result.changed_samples == len(result.changed) > 5
    assert result.changed[0].picture.startswith(b"\x89PNG")
    quantized = ptq.quantize(models[0], images, effort="fast", threads=1)
    assert "picture" not in json.dumps(json.loads(quantized.report.to_json())["evaluation"])


def test_boxes_are_shares_of_the_image_and_drawn_for_both_answers():
    def outputs(*boxes):
        """Columns of centre and size in pixels, and one score for each of two classes."""
        rows = np.zeros((6, 40), np.float32)
        for column, (x, y, w, h, label) in enumerate(boxes):
            rows[:4, column] = x, y, w, h
            rows[4 + label, column] = 0.9
        return rows[None]

    before, after = outputs((20, 30, 10, 20, 0), (60, 60, 8, 8, 1)), outputs((20, 30, 10, 20, 0))
    task = DetectTask(BoxHead("y", "y", columns=True))
    feed = {"x": np.random.default_rng(0).uniform(0, 1, (1, 3, 100, 80)).astype(np.float32)}
    found = ChangedSamples("int8", None, {"names": "{0: 'cat', 1: 'dog'}"})
    found.add(task, Example(feed, {"y": before}, "s"), {"int8": {"y": after}})
    (sample,) = found.result()
    first = sample.other.boxes[0]
    assert (first.left, first.top, first.right, first.bottom) == (0.1875, 0.2, 0.3125, 0.4)
    assert [box.label for box in sample.reference.boxes] == ["cat", "dog"]
    exhibit = build_changed(found.result(), 1, 1, classes={}).blocks[0].exhibits[0]
    assert [box.style for box in exhibit.boxes] == ["reference", "reference", "other"]
    assert dict(exhibit.answers)["int8"] == (("span", "1 × cat"),)
    assert exhibit.source.startswith("data:image/jpeg;base64,")


def _decode_png(picture: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture)))


def test_a_mask_is_transparent_where_it_is_background_and_opaque_where_it_differs():
    labels = np.zeros((8, 10), np.int64)
    labels[2:5, 2:6], labels[6, 6] = 1, 2
    marked = np.zeros((8, 10), bool)
    marked[2, 2] = marked[7, 7] = True
    drawn = _decode_png(draw_mask(labels, marked))
    assert drawn.shape == (8, 10, 4)
    assert drawn[0, 0, 3] == 0
    assert drawn[2, 2, 3] == drawn[7, 7, 3] == 255
    assert 0 < drawn[3, 3, 3] < 255
    assert (drawn[3, 3, :3] != drawn[6, 6, :3]).any()
    large = _decode_png(draw_mask(np.zeros((500, 300), np.int64), np.zeros((500, 300), bool)))
    assert max(large.shape) <= MAX_PIXELS


def test_masks_of_both_forms_lie_over_the_picture():
    found = ChangedSamples("int8", None, {"names": "{0: 'floor', 1: 'wall'}"})
    task = SegmentTask("y", 2)
    before = np.zeros((1, 2, 12, 12), np.float32)
    before[0, 1, :6], before[0, 0, 6:] = 1, 1
    after = before.copy()
    after[0, :, 5] = [[1], [0]]
    image = np.linspace(0, 255, 3 * 144).reshape(1, 3, 12, 12).astype(np.float32)
    found.add(task, Example({"x": image}, {"y": before}, "room"), {"int8": {"y": before}})
    found.add(task, Example({"x": image}, {"y": before}, "hall"), {"int8": {"y": after}})
    (sample,) = found.result()
    assert (found.count, sample.name, sample.changed, sample.overlaid) == (1, "hall", 12, True)
    assert sample.reference.tokens == ("floor: 50.0 %", "wall: 50.0 %")
    assert sample.other.tokens == ("floor: 58.3 %", "wall: 41.7 %")
    drawn = _decode_png(sample.reference_picture), _decode_png(sample.other_picture)
    assert (drawn[0][5, :, 3] == 255).all()
    assert (drawn[0][4, :, 3] < 255).all()
    assert (drawn[0][5] != drawn[1][5]).any()
    exhibit = build_changed([sample], 1, 2, classes={}).blocks[0].exhibits[0]
    assert [name for name, _ in exhibit.pictures] == ["float", "int8"]
    assert all(source.startswith("data:image/png;base64,") for _, source in exhibit.pictures)


def test_changed_neighbours_are_kept_with_the_pictures_of_both():
    found = ChangedSamples("int8", None, {})
    vectors = np.eye(20, dtype=np.float32)
    before = [vectors[0], vectors[0] + 0.1 * vectors[1], vectors[2], vectors[2] + 0.5 * vectors[0]]
    after = [*before[:3], vectors[0] + 0.5 * vectors[2]]
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        image = np.full((1, 3, 8, 8), 40 * number, np.float32)
        example = Example({"x": image}, {"y": one[None]}, f"s{number}")
        found.add(EmbedTask("y"), example, {"int8": {"y": other[None]}})
    kept = found.result()
    assert found.count == len(kept)
    last = next(sample for sample in kept if sample.name == "s3")
    assert (last.reference.tokens, last.other.tokens) == (("s2",), ("s0",))
    assert not last.overlaid
    level = [
        int(_decode_png(p).max())
        for p in (last.picture, last.reference_picture, last.other_picture)
    ]
    assert level == [120, 80, 0]
    exhibit = build_changed(kept, found.count, 4, classes={}).blocks[0].exhibits[-1]
    assert exhibit.source
    assert len(exhibit.pictures) == 2


def test_the_neighbours_of_all_vectors_of_a_sample_count():
    found, names = ChangedSamples("int8", None, {}), "abc"
    angles = np.radians([[0.0, 10.0], [30.0, 90.0], [95.0, 180.0]])
    others = angles.copy()
    others[1, 1], others[2, 1] = np.radians(22.0), np.nan
    for name, one, other in zip(names, angles, others, strict=True):
        before, after = (np.stack([np.cos(a), np.sin(a)], axis=1) for a in (one, other))
        example = Example({"x": np.zeros((1, 3))}, {"y": before}, name)
        found.add(EmbedTask("y"), example, {"int8": {"y": after}})
    # of b, 30° was next to 10° and is to 22°, which was 90° and next to 95°
    # of c, 95° was next to 90°, and 180°, which is lost, to 95°; of a, both stay next to each other
    assert [(sample.name, sample.changed) for sample in found.result()] == [("b", 2), ("c", 2)]
    assert found.result()[1].reference.tokens == ("b",)
    assert build_changed(found.result(), found.count, 3, classes={}).blocks


def test_pictures_of_answers_stay_out_of_json():
    sample = ChangedSample("s", (), 1, Answer(), Answer(), b"1", b"2", b"3")
    document = json.loads(format_json(asdict(sample)))
    assert {"picture", "reference_picture", "other_picture"} & set(document) == set()
