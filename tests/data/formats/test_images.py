"""Image folders against Pillow and numpy, applied step by step by hand."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from ptq.core.errors import DataError, UsageError
from ptq.data import InputSpec, Preprocess, Samples, open_samples
from ptq.data.preprocessing.preprocess import CropRounding, Interpolation

NCHW = InputSpec("x", np.dtype(np.float32), (None, 3, 20, 24))
PLAIN = Preprocess(mean=(0,), std=(1,))
FREE = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))


def photo(path: Path, size: tuple[int, int] = (40, 30), mode: str = "RGB", seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


def pixels(path: Path) -> NDArray[np.float64]:
    with Image.open(path) as image:
        return np.asarray(image, np.float64)


def fed(samples: Samples, name: str = "x") -> list[NDArray[np.float32]]:
    return [sample.feed[name] for sample in samples]


def test_the_models_size_and_layout_are_used_when_nothing_is_given(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png")
    with Image.open(path) as image:
        wanted = np.asarray(image.resize((24, 20), Image.Resampling.BILINEAR), np.float64) / 255
    mean, std = (
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
    )  # ImageNet's, as torchvision gives them
    samples = open_samples(tmp_path, [NCHW])
    (array,) = fed(samples)
    assert array.shape == (1, 3, 20, 24)
    assert array.dtype == np.float32
    np.testing.assert_allclose(
        array[0].transpose(1, 2, 0), (wanted - mean) / std, rtol=1e-5, atol=1e-6
    )
    assert samples.preprocess is not None
    assert samples.preprocess.describe() == {
        "channels": "RGB",
        "size": [20, 24],
        "interpolation": "bilinear",
        "scale": 1 / 255,
        "mean": [*mean],
        "std": [*std],
        "layout": "NCHW",
    }


def test_a_channels_last_input_gets_channels_last(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (24, 20))
    spec = InputSpec("x", np.dtype(np.float32), (1, 20, 24, 3))
    (array,) = fed(open_samples(tmp_path, [spec], PLAIN))
    np.testing.assert_allclose(array[0], pixels(path) / 255, rtol=1e-6)


def test_an_input_without_a_batch_axis_gets_none(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (24, 20))
    spec = InputSpec("x", np.dtype(np.float32), (3, 20, 24))
    (array,) = fed(open_samples(tmp_path, [spec], PLAIN))
    np.testing.assert_allclose(array, pixels(path).transpose(2, 0, 1) / 255, rtol=1e-6)


def test_mean_and_std_act_in_scaled_units(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (24, 20))
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    (array,) = fed(open_samples(tmp_path, [NCHW], Preprocess(mean=mean, std=std)))
    wanted = ((pixels(path) / 255 - mean) / std).astype(np.float32)
    np.testing.assert_allclose(array[0].transpose(1, 2, 0), wanted, rtol=1e-5, atol=1e-7)


def test_scale_one_leaves_pixel_values(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (24, 20))
    (array,) = fed(open_samples(tmp_path, [NCHW], Preprocess(scale=1, mean=(127,), std=(128,))))
    wanted = ((pixels(path) - 127) / 128).astype(np.float32)
    np.testing.assert_array_equal(array[0].transpose(1, 2, 0), wanted)


def test_bgr_reverses_the_colours_and_its_mean_follows(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (24, 20))
    pre = Preprocess(channels="BGR", mean=(0.1, 0.2, 0.3))
    (array,) = fed(open_samples(tmp_path, [NCHW], pre))
    wanted = pixels(path)[:, :, ::-1] / 255 - (0.1, 0.2, 0.3)
    np.testing.assert_allclose(array[0].transpose(1, 2, 0), wanted, rtol=1e-5, atol=1e-7)


def test_a_one_channel_input_makes_colours_gray(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (24, 20))
    spec = InputSpec("x", np.dtype(np.float32), (None, 1, 20, 24))
    (array,) = fed(open_samples(tmp_path, [spec]))
    luma = pixels(path) @ (0.299, 0.587, 0.114)  # ITU-R 601
    np.testing.assert_allclose(array[0, 0] * 255, luma, atol=0.51)


def test_the_shorter_side_is_resized_then_the_centre_cropped(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (81, 60))
    pre = Preprocess(resize=30, crop=(20, 24), scale=1 / 255)
    (array,) = fed(open_samples(tmp_path, [NCHW], pre))
    with Image.open(path) as image:
        small = np.asarray(image.resize((40, 30), Image.Resampling.BILINEAR), np.float64)
    np.testing.assert_allclose(array[0].transpose(1, 2, 0), small[5:25, 8:32] / 255, rtol=1e-6)


def test_resize_alone_crops_to_the_models_size(tmp_path: Path) -> None:
    photo(tmp_path / "a.png", (81, 60))
    given = open_samples(tmp_path, [NCHW], Preprocess(resize=30, crop=(20, 24)))
    implied = open_samples(tmp_path, [NCHW], Preprocess(resize=30))
    assert implied.preprocess == given.preprocess
    np.testing.assert_array_equal(fed(given)[0], fed(implied)[0])


def test_images_keep_their_sizes_where_the_model_leaves_them_open(tmp_path: Path) -> None:
    photo(tmp_path / "a.png", (10, 50))
    photo(tmp_path / "b.png", (300, 20))
    photo(tmp_path / "c.png", (1, 1))
    shapes = [array.shape for array in fed(open_samples(tmp_path, [FREE]))]
    assert shapes == [(1, 3, 50, 10), (1, 3, 20, 300), (1, 3, 1, 1)]


def test_a_uint8_input_gets_the_pixels_themselves(tmp_path: Path) -> None:
    path = photo(tmp_path / "a.png", (24, 20))
    spec = InputSpec("x", np.dtype(np.uint8), (1, 20, 24, 3))
    (array,) = fed(open_samples(tmp_path, [spec]))
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array[0], pixels(path).astype(np.uint8))
    with pytest.raises(UsageError, match="uint8"):
        open_samples(tmp_path, [spec], Preprocess(mean=(0.5,)))


def test_a_crop_larger_than_the_image_names_the_image(tmp_path: Path) -> None:
    photo(tmp_path / "small.png", (23, 20))
    with pytest.raises(DataError, match=r"small\.png: 20×23 is smaller than the crop of 20×24"):
        list(open_samples(tmp_path, [NCHW], Preprocess(crop=(20, 24))))


def test_class_folders_are_labels_in_sorted_order(tmp_path: Path) -> None:
    for name in ("dog/1.png", "cat/2.png", "cat/deep/3.png", "top.png"):
        photo(tmp_path / name, (4, 4))
    (tmp_path / "empty").mkdir()
    samples = open_samples(tmp_path, [FREE])
    assert samples.classes == ("cat", "dog", "empty")
    assert {s.name: s.labels for s in samples} == {
        "cat/2.png": (0,),
        "cat/deep/3.png": (0,),
        "dog/1.png": (1,),
        "top.png": (),
    }
    assert samples.highest_label == 1
    assert samples.subset([0]).highest_label == 0


@pytest.mark.parametrize(
    ("folders", "labels"),
    [
        (["0", "2", "10"], [0, 2, 10]),
        (["007", "012"], [7, 12]),
        (["1", "01"], [1, 0]),  # one number twice: places in sorted order, "01" before "1"
        (["1_cat", "2_dog"], [0, 1]),
        (["0_a", "1_b", "2_c", "4_e", "5_f"], [0, 1, 2, 4, 5]),
        (["3_dress", "4_coat", "6_shirt"], [0, 1, 2]),  # sizes or years may begin names too
        (["0.cat", "2.dog"], [0, 2]),
        (["001.auk", "002.gull"], [0, 1]),  # numbers from 1 on
        (["0_10", "11_20", "21_30"], [0, 1, 2]),  # ranges
        (["0", "2", "docs"], [0, 1, 2]),
        ([f"{k}_name" for k in range(12)], list(range(12))),
        (["n02", "n01"], [1, 0]),
    ],
)
def test_numbered_class_folders_are_labels(
    tmp_path: Path, folders: list[str], labels: list[int]
) -> None:
    for folder in folders:
        photo(tmp_path / folder / "a.png", (2, 2))
    found = {s.name.split("/")[0]: s.labels for s in open_samples(tmp_path, [FREE])}
    assert found == {f: (label,) for f, label in zip(folders, labels, strict=True)}


@pytest.mark.parametrize("separator", [" ", ",", "\t", ", ", ";"])
def test_a_labels_file_takes_the_place_of_folder_names(tmp_path: Path, separator: str) -> None:
    for name in ("c/one two.png", "c/b.png", "c/n.png", "z.png"):
        photo(tmp_path / name, (2, 2))
    lines = [("c/one two.png", "3", "5"), ("c/b.png", "-1"), ("z.png", "0")]
    text = "".join(separator.join(p) + "\r\n" for p in lines)
    (tmp_path / "labels.csv").write_bytes(text.encode("utf-8-sig"))
    samples = open_samples(tmp_path, [FREE])
    assert samples.classes == ()
    assert {s.name: s.labels for s in samples} == {
        "c/b.png": (),
        "c/n.png": (),
        "c/one two.png": (3, 5),
        "z.png": (0,),
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gone.png 3", r"labels\.txt line 2: image 'gone\.png' is not in the folder"),
        ("b.png", r"line 2: image 'b\.png' has no label"),
        ("b.png cat", r"line 2: image 'b\.png': 'cat' is no class number; give numbers"),
        ("b.png,cat", r"line 2: image 'b\.png': 'cat' is no class number"),
        ('"b.png";1e3', r"line 2: image 'b\.png': '1e3' is no class number"),
        ("b.png,9999999999", r"line 2: image 'b\.png': '9999999999' is no class number"),
        ("b.png,cat,3", r"line 2: image 'b\.png': 'cat' is no class number"),
        ("a.png 3", r"line 2: image 'a\.png' is listed twice"),
        ("b.png -2", r"line 2: image 'b\.png': label -2 is negative"),
        ("cat 1", "line 2: does not name an image"),
    ],
)
def test_a_wrong_line_of_a_labels_file_is_named(tmp_path: Path, line: str, message: str) -> None:
    photo(tmp_path / "a.png", (2, 2))
    photo(tmp_path / "b.png", (2, 2))
    (tmp_path / "labels.txt").write_text(f"a.png 1\n{line}\n")
    with pytest.raises(DataError, match=message):
        open_samples(tmp_path, [FREE])


@pytest.mark.parametrize("separator", [" ", ",", "\t", ";"])
def test_a_row_with_more_labels_than_its_header_is_refused(tmp_path: Path, separator: str) -> None:
    """A third cell, such as a fold, was a second accepted class."""
    for name in ("a.png", "b c.png"):
        photo(tmp_path / name, (2, 2))
    table = tmp_path / "labels.csv"
    rows: list[tuple[str, ...]] = [("file", "label"), ("a.png", "3"), ("b c.png", "5")]
    table.write_text("\n".join(separator.join(row) for row in rows))
    assert [s.labels for s in open_samples(tmp_path, [FREE])] == [(3,), (5,)]
    rows[2] += ("1",)
    table.write_text("\n".join(separator.join(row) for row in rows))
    with pytest.raises(
        DataError, match=r"labels\.csv line 3: image 'b c\.png' has 2 labels, but the header names one column"
    ):  # fmt: skip
        open_samples(tmp_path, [FREE])


@pytest.mark.parametrize(
    "row", ['"b, c.png",5', "b, c.png,5", '"b, c.png","5"', '"b, c.png",5,,', '"b, c.png",5 3']
)
def test_a_row_with_a_comma_in_its_path_has_one_cell_of_labels(tmp_path: Path, row: str) -> None:
    photo(tmp_path / "b, c.png", (2, 2))
    (tmp_path / "labels.csv").write_text(f"path,label\n{row}\n")
    (sample,) = open_samples(tmp_path, [FREE])
    assert sample.labels == ((5, 3) if row.endswith("5 3") else (5,))


def test_a_labels_file_of_names_alone_is_not_passed_over(tmp_path: Path) -> None:
    photo(tmp_path / "a.png", (2, 2))
    (tmp_path / "labels.csv").write_text("file,label\na.png,cat\n")
    with pytest.raises(
        DataError, match=r"labels\.csv line 2: image 'a\.png': 'cat' is no class number"
    ):
        open_samples(tmp_path, [FREE])


def test_a_labels_file_that_lists_class_names_numbers_the_folders(tmp_path: Path) -> None:
    photo(tmp_path / "cat" / "a.png", (2, 2))
    (tmp_path / "labels.txt").write_text("cat\ndog 2\n")
    assert [s.labels for s in open_samples(tmp_path, [FREE])] == [(0,)]


def test_images_for_several_inputs_are_refused(tmp_path: Path) -> None:
    photo(tmp_path / "a.png")
    with pytest.raises(DataError, match="feed one input, but the model's inputs are 'x', 'y'"):
        open_samples(tmp_path, [NCHW, InputSpec("y", np.dtype(np.float32), (1,))])


@pytest.mark.parametrize("name", get_args(Interpolation))
def test_interpolation_is_the_filter_of_pillow(tmp_path: Path, name: Interpolation) -> None:
    path = photo(tmp_path / "a.png")
    with Image.open(path) as image:
        wanted = np.asarray(image.resize((24, 20), Image.Resampling[name.upper()]), np.float64)
    pre = Preprocess(scale=1, interpolation=name)
    (array,) = fed(open_samples(tmp_path, [NCHW], pre))
    np.testing.assert_array_equal(array[0].transpose(1, 2, 0), wanted)


@pytest.mark.parametrize(("rounding", "top"), [(None, 2), ("even", 2), ("down", 1)])
def test_an_odd_surplus_is_halved_as_asked(
    tmp_path: Path, rounding: CropRounding | None, top: int
) -> None:
    path = photo(tmp_path / "a.png", (27, 23))  # surplus 3 in both directions
    pre = Preprocess(crop=(20, 24), crop_rounding=rounding, scale=1)
    (array,) = fed(open_samples(tmp_path, [NCHW], pre))
    wanted = pixels(path)[top : top + 20, top : top + 24]
    np.testing.assert_array_equal(array[0].transpose(1, 2, 0), wanted)
