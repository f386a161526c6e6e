"""Forms of one item, and images as items, against what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ptq.core.errors import DataError, UsageError
from ptq.data import InputSpec, Preprocess, open_samples

A = InputSpec("a", np.dtype(np.float32), (None, 2))
B = InputSpec("b", np.dtype(np.int64), (None, 3))
IMAGE = InputSpec("x", np.dtype(np.float32), (None, 3, 8, 10))
FLOATS = np.array([[1, 2]], np.float32)
INTEGERS = np.array([[3, 4, 5]])
PRE = Preprocess(mean=(0.2, 0.3, 0.4), std=(0.5, 0.6, 0.7), interpolation="bicubic")


@pytest.mark.parametrize(
    ("item", "labels"),
    [
        ((FLOATS, INTEGERS), ()),
        ([FLOATS, INTEGERS, 7], (7,)),
        ((FLOATS[0], INTEGERS[0].tolist(), 7), (7,)),
        ({"a": FLOATS, "b": INTEGERS}, ()),
        (({"a": FLOATS, "b": INTEGERS}, 7), (7,)),
        ([{"a": FLOATS, "b": INTEGERS}, 7], (7,)),
        ({"a": FLOATS, "b": INTEGERS, "labels": 7}, (7,)),
        ({"a": FLOATS, "b": INTEGERS, "label": [7]}, (7,)),
    ],
)
def test_inputs_are_taken_by_name_or_in_order_with_a_label_behind(
    item: Any, labels: object
) -> None:
    (sample,) = open_samples([item], [A, B])
    np.testing.assert_array_equal(sample.feed["a"], FLOATS)
    np.testing.assert_array_equal(sample.feed["b"], INTEGERS)
    assert sample.labels == labels


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((FLOATS,), "is a tuple of 1 values; the model has 2 inputs"),
        ((FLOATS, INTEGERS, 1, 2), "is a tuple of 4 values; the model has 2 inputs"),
        (FLOATS, "has type ndarray; the model has 2 inputs .*give a dict of arrays by input name"),
        ({"a": FLOATS}, "arrays must be named as the model's inputs.*missing 'b'"),
        ({"a": "text", "b": INTEGERS}, "input 'a' has type str; give an array"),
        ({"a": [[1], [2, 3]], "b": INTEGERS}, "cannot convert list to an array"),
    ],
)
def test_an_item_of_another_form_is_refused(item: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"data\[0\]: {message}"):
        list(open_samples([item], [A, B]))


def photo(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 30, 3), np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(3):
        (tmp_path / "photos" / str(seed)).mkdir(parents=True)
        photo(seed).save(tmp_path / "photos" / str(seed) / "a.png")
    return tmp_path / "photos"


def pixels(seed: int) -> Any:
    return np.asarray(photo(seed))


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: [folder / str(k) / "a.png" for k in range(3)],
        lambda folder: [(str(folder / str(k) / "a.png"), k) for k in range(3)],
        lambda _: [photo(k) for k in range(3)],
        lambda _: [(photo(k), k) for k in range(3)],
        lambda _: [{"image": photo(k), "label": k} for k in range(3)],
        lambda _: [pixels(k) for k in range(3)],
        lambda _: [(pixels(k).transpose(2, 0, 1), k) for k in range(3)],
        lambda _: np.stack([pixels(k) for k in range(3)]),
        lambda _: {"x": np.stack([pixels(k) for k in range(3)]), "labels": [0, 1, 2]},
        lambda _: [(np.stack([pixels(k) for k in range(3)]), [0, 1, 2])],
        lambda _: [[photo(k) for k in range(3)]],
        lambda _: lambda: (photo(k) for k in range(3)),
        lambda _: lambda: ((pixels(k), k) for k in range(3)),
    ],
    ids=[
        *("paths", "paths_labels", "pil", "pil_labels", "dicts", "uint8", "uint8_chw_labels"),
        *(
            "uint8_array",
            "uint8_dict",
            "uint8_batch",
            "pil_batch",
            "pil_callable",
            "uint8_callable",
        ),
    ],
)
def test_images_from_python_are_prepared_as_those_of_a_folder(folder: Path, make: Any) -> None:
    expected = list(open_samples(folder, [IMAGE], PRE))
    samples = open_samples(make(folder), [IMAGE], PRE)
    found = list(samples)
    assert samples.preprocess == open_samples(folder, [IMAGE], PRE).preprocess
    assert [s.labels for s in found] in ([(0,), (1,), (2,)], [()] * 3)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.feed["x"], other.feed["x"])


def test_pixels_in_npz_and_npy_are_images_if_options_are_given(
    folder: Path, tmp_path: Path
) -> None:
    expected = list(open_samples(folder, [IMAGE], PRE))
    stacked = np.stack([pixels(k) for k in range(3)])
    np.save(tmp_path / "x.npy", stacked)
    np.savez(tmp_path / "x.npz", x=stacked, labels=np.arange(3))
    for name in ("x.npy", "x.npz"):
        found = list(open_samples(tmp_path / name, [IMAGE], PRE))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.feed["x"], other.feed["x"])
    assert [s.labels for s in found] == [(0,), (1,), (2,)]


def test_an_evenly_spread_part_of_a_list_of_images_is_used(folder: Path) -> None:
    paths = [folder / str(k) / "a.png" for k in (0, 0, 1, 1, 2, 2)]
    samples = open_samples(paths, [IMAGE], limit=3)
    assert samples.names == ["data[0]", "data[2]", "data[4]"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (np.zeros((8, 10, 3), np.float32), "has type float32; preprocessing applies to"),
        (np.zeros((8, 10, 5), np.uint8), r"pixels of shape \[8, 10, 5\] are no image"),
        (np.zeros(8, np.uint8), r"pixels of shape \[8\] are no image"),
        ("gone.png", "gone.png: cannot read the image: No such file"),
    ],
)
def test_what_is_no_image_is_refused_if_options_are_given(item: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(open_samples([item], [IMAGE], PRE))


def test_images_for_a_model_that_takes_none_are_refused() -> None:
    with pytest.raises(DataError, match="images feed 3 or 4 dimensions"):
        list(open_samples([photo(0)], [A]))
    with pytest.raises(UsageError, match="give a list of images"):
        open_samples(photo(0), [IMAGE])  # type: ignore[arg-type] # the error is the test
