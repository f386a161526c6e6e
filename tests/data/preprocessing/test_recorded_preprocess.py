"""Records of preprocessing: what they complete, what they refuse, and how differences are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import build_network

from ptq.core.errors import DataError
from ptq.core.preprocess_record import FEEDS, describe_differences
from ptq.core.record import decode_record, encode_record
from ptq.data import InputSpec, Preprocess
from ptq.data.preprocessing.recorded_preprocess import (
    RecordedPreprocess,
    complete_preprocess,
    encode_preprocess,
    read_preprocess,
)
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS

SPEC = InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))
FULL = Preprocess(
    resize=10, crop=(8, 8), mean=(0.1, 0.2, 0.3), std=(0.5,), channels="BGR", interpolation="bicubic",
    crop_rounding="down",
)  # fmt: skip


def recorded(options: Preprocess, spec: InputSpec = SPEC) -> RecordedPreprocess:
    return RecordedPreprocess(encode_preprocess(options.resolved(spec)), "the model")


@pytest.mark.parametrize(
    "options",
    [FULL, Preprocess(), Preprocess(size=(8, 8), scale=1.0), Preprocess(channels="BGR")],
    ids=["full", "assumed", "size", "bgr"],
)
def test_a_record_reads_back_as_the_same_options(options: Preprocess) -> None:
    resolved = options.resolved(SPEC)
    text = encode_record(encode_preprocess(resolved))
    again = RecordedPreprocess(decode_record(text), "the model").to_options()
    assert again == resolved
    assert again is not None
    assert again.assumed == resolved.assumed
    assert again.resolved(SPEC) == resolved


def test_arrays_are_recorded_as_fed_as_given() -> None:
    assert encode_preprocess(None) == {"source": "feeds"}
    assert RecordedPreprocess(FEEDS, "the plan").to_options() is None
    assert complete_preprocess(None, RecordedPreprocess(FEEDS, "the plan")) is None


def test_what_is_not_given_comes_from_the_record_and_what_is_given_wins() -> None:
    record = recorded(FULL)
    whole = FULL.resolved(SPEC)
    assert complete_preprocess(None, record) == whole
    found = complete_preprocess(Preprocess(mean=(0.0,)), record)
    assert found == replace(whole, mean=(0.0,))
    found = complete_preprocess(Preprocess(size=(8, 8)), record)
    assert found == replace(whole, size=(8, 8), resize=None, crop=None)
    found = complete_preprocess(Preprocess(letterbox=114), record)
    assert found == replace(whole, letterbox=114, resize=None, crop=None)


def test_another_scale_drops_the_recorded_mean_and_std_which_are_in_scaled_units() -> None:
    found = complete_preprocess(Preprocess(scale=1.0), recorded(FULL))
    assert found is not None
    assert (found.scale, found.mean, found.std) == (1.0, None, None)
    same = complete_preprocess(Preprocess(scale=1 / 255), recorded(FULL))
    assert same == FULL.resolved(SPEC)


def test_what_was_assumed_stays_assumed_until_a_value_is_given() -> None:
    record = recorded(Preprocess())
    kept = complete_preprocess(Preprocess(interpolation="box"), record)
    assert kept is not None
    assert "ImageNet" in kept.assumed
    given = complete_preprocess(Preprocess(mean=(0.5,)), record)
    assert given is not None
    assert given.assumed == ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mean": [0.5]}, "mean 0.5 instead of 0.1,0.2,0.3"),
        ({"crop": [6, 8]}, "crop 6×8 instead of 8×8"),
        ({"channels": "RGB"}, "channels RGB instead of BGR"),
        ({"interpolation": "box"}, "interpolation box instead of bicubic"),
        ({"crop_rounding": None}, "crop_rounding none instead of down"),
        ({"source": "feeds"}, "arrays, fed as given, instead of images"),
        ({"std": [0.5, 0.5, 0.5]}, ""),
        ({"assumed": "a guess"}, ""),
    ],
)
def test_differences_are_named_and_equal_values_are_none(change: dict[str, Any], text: str) -> None:
    record = dict(encode_preprocess(FULL.resolved(SPEC)))
    assert describe_differences({**record, **change}, record) == text


def test_a_missing_mean_is_0_and_a_missing_std_is_1() -> None:
    plain = encode_preprocess(Preprocess(scale=1 / 255).resolved(SPEC))
    explicit = encode_preprocess(Preprocess(mean=(0.0,), std=(1.0,)).resolved(SPEC))
    assert describe_differences(plain, explicit) == ""


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "neither of images nor of arrays"),
        ({"source": "images", "gamma": 2}, "does not know the option 'gamma'"),
        ({"source": "images", "size": [8]}, "not a height and a width"),
        ({"source": "images", "size": [8.5, 8]}, "size 8.5 is not a whole number"),
        ({"source": "images", "resize": True}, "resize True is not a whole number"),
        ({"source": "images", "mean": "0.5"}, "mean '0.5' is not a finite number"),
        ({"source": "images", "std": [0]}, "not positive"),
        ({"source": "images", "scale": []}, "scale .* is not a finite number"),
        ({"source": "images", "layout": ["NCHW"]}, "is unknown"),
        ({"source": "images", "assumed": 3}, "not a text"),
        ({"source": ["images"]}, "neither of images nor of arrays"),
    ],
)
def test_a_damaged_record_is_refused_with_a_reason(record: dict[str, Any], reason: str) -> None:
    found = RecordedPreprocess(record, "the model")
    with pytest.raises(DataError, match=reason) as caught:
        complete_preprocess(None, found)
    assert "the preprocessing that the model records cannot be used" in str(caught.value)
    assert complete_preprocess(FULL, found) == FULL  # what the user gives needs no record


@pytest.mark.parametrize("text", ["", "[]", "{", "NaN", '{"mean": NaN}', "[" * 100_000])
def test_an_entry_that_is_no_record_hinders_images_but_not_arrays(text: str, tmp_path: Any) -> None:
    graph = Graph.from_proto(build_network("y = GlobalAveragePool(x)", {"x": ("n", 3, 8, 8)}))
    graph.metadata[PREPROCESS] = text
    arrays = SampleOptions().open(np.zeros((2, 3, 8, 8), np.float32), graph)
    assert len(arrays) == 2
    found = read_preprocess(graph)
    with pytest.raises(DataError, match="cannot be used"):
        complete_preprocess(None, found)
