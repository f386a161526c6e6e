"""Samples from .npz, .npy and arrays, against the arrays that were saved."""

from __future__ import annotations

import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.data import InputSpec, Preprocess, open_samples

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3, 4)).astype(np.float32)
IDS = RNG.integers(0, 99, (12, 5))


def spec(name: str, *shape: int | None, dtype: str = "float32") -> InputSpec:
    return InputSpec(name, np.dtype(dtype), shape)


BATCHED = spec("x", None, 3, 4)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("first", [None, 1])
def test_each_row_of_an_npz_is_a_sample_with_a_batch_of_one(
    tmp_path: Path, save: Any, first: int | None
) -> None:
    save(tmp_path / "d.npz", x=X, ids=IDS, labels=np.arange(12) - 1)
    inputs = [spec("x", first, 3, 4), spec("ids", first, None, dtype="int64")]
    samples = open_samples(tmp_path / "d.npz", inputs)
    assert len(samples) == 12
    for _ in range(2):
        for i, sample in enumerate(samples):
            assert sample.name == f"d.npz[{i}]"
            np.testing.assert_array_equal(sample.feed["x"], X[i : i + 1])
            np.testing.assert_array_equal(sample.feed["ids"], IDS[i : i + 1])
            assert sample.labels == (() if i == 0 else (i - 1,))
    assert i == 11
    assert samples.highest_label == 10
    assert samples.first(1).highest_label == -1
    assert samples.first(4).highest_label == 2


def test_an_input_of_a_rows_rank_gets_the_row_itself(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, s=np.arange(12, dtype=np.float32))
    samples = open_samples(tmp_path / "d.npz", [spec("x", 3, 4), spec("s")])
    for i, sample in enumerate(samples):
        np.testing.assert_array_equal(sample.feed["x"], X[i])
        assert sample.feed["s"].shape == ()
        assert sample.feed["s"] == i


def test_rows_of_labels_list_all_acceptable_classes(tmp_path: Path) -> None:
    labels = np.array([[4, 7, -1], [-1, -1, -1], [2, 2, 3]])
    np.savez(tmp_path / "d.npz", x=X[:3], labels=labels)
    samples = open_samples(tmp_path / "d.npz", [BATCHED])
    assert [s.labels for s in samples] == [(4, 7), (), (2, 3)]


def test_an_input_called_labels_is_an_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, labels=X)
    samples = open_samples(tmp_path / "d.npz", [BATCHED, spec("labels", None, 3, 4)])
    assert next(iter(samples)).feed["labels"].shape == (1, 3, 4)
    assert next(iter(samples)).labels == ()
    assert samples.highest_label == -1


def test_subsets_read_the_right_rows(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", x=X)
    samples = open_samples(tmp_path / "d.npz", [BATCHED])
    for chosen in ([11, 2, 5], [0], [], range(3, 9)):
        part = samples.subset(chosen)
        assert len(part) == len(chosen)
        rows = [s.feed["x"][0] for s in part]
        np.testing.assert_array_equal(np.reshape(rows, (-1, 3, 4)), X[sorted(chosen)])


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_npy_feeds_the_only_input(tmp_path: Path, order: Any) -> None:
    np.save(tmp_path / "d.npy", np.asarray(X, order=order))
    samples = open_samples(tmp_path / "d.npy", [BATCHED])
    np.testing.assert_array_equal(np.concatenate([s.feed["x"] for s in samples]), X)
    assert samples.names[3] == "d.npy[3]"
    with pytest.raises(DataError, match="feeds one input, but the model's inputs are 'x', 'y'"):
        open_samples(tmp_path / "d.npy", [BATCHED, spec("y", None)])


def test_arrays_in_memory_are_rows_too() -> None:
    for source in (X, {"x": X}):
        samples = open_samples(source, [BATCHED])
        np.testing.assert_array_equal(np.concatenate([s.feed["x"] for s in samples]), X)


def test_each_file_of_a_folder_is_a_whole_feed(tmp_path: Path) -> None:
    np.savez(tmp_path / "b.npz", x=X, labels=3)
    np.savez(tmp_path / "a.npz", x=np.asfortranarray(X[:5]), labels=[[1, 2]])
    samples = open_samples(tmp_path, [BATCHED])
    one, two = samples
    assert (one.name, one.labels, two.name, two.labels) == ("a.npz", (1, 2), "b.npz", (3,))
    np.testing.assert_array_equal(one.feed["x"], X[:5])
    np.testing.assert_array_equal(two.feed["x"], X)
    assert samples.highest_label == -1  # nothing was read for it


def test_a_label_a_row_in_a_folder_of_feeds_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, labels=np.arange(12))
    with pytest.raises(DataError, match=r"a\.npz: a file of this folder is one sample"):
        list(open_samples(tmp_path, [BATCHED]))


def test_a_model_without_inputs_is_fed_with_empty_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz")
    assert [s.feed for s in open_samples(tmp_path, [])] == [{}]


def test_a_single_unnamed_array_feeds_the_only_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X)
    assert len(list(open_samples(tmp_path / "d.npz", [BATCHED]))) == 12


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": X}, "missing 'x'; unexpected 'image'"),
        ({"x": X, "label": IDS}, "unexpected 'label'"),
        ({}, "missing 'x'"),
        (
            {"x": X[0]},
            "its shape [3, 4] is that of one sample; save N samples as an array of shape [N, 3, 4]",
        ),
        ({"x": X[:, :2]}, "has shape [1, 2, 4]; the model takes float32[?, 3, 4]"),
        ({"x": X[:0]}, "contains no samples"),
        ({"x": X.astype(np.complex64)}, "is of type complex64"),
        ({"x": X.astype(np.uint8)}, "is of type uint8"),
        ({"x": X.astype("U8")}, "is of type <U8"),
        ({"x": X, "labels": np.arange(11)}, "'x' has 12 samples, 'labels' has 11"),
        (
            {"x": X, "labels": np.zeros((12, 99))},
            "99 values of type float64 for each sample are no one-hot",
        ),
        (
            {"x": X, "labels": np.full(12, -3)},
            "label -3 is negative; for samples without label give -1",
        ),
        ({"x": X, "labels": np.zeros((12, 1, 1), int)}, "3 dimensions"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_when_the_file_is_opened(
    tmp_path: Path, arrays: dict[str, NDArray[Any]], message: str
) -> None:
    np.savez(tmp_path / "d.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        open_samples(tmp_path / "d.npz", [BATCHED])
    assert "d.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_inputs_of_different_length_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, ids=IDS[:7])
    with pytest.raises(DataError, match="'x' has 12 samples, 'ids' has 7"):
        open_samples(tmp_path / "d.npz", [BATCHED, spec("ids", None, 5, dtype="int64")])


def test_a_fixed_batch_is_not_taken_for_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X)
    with pytest.raises(
        DataError, match=r"12 rows at once.*leave `static_batch` out.*folder of \.npz"
    ):
        open_samples(tmp_path / "d.npz", [spec("x", 12, 3, 4)])


def test_floats_are_cast_to_the_models_float() -> None:
    (sample,) = open_samples({"x": X[:1].astype(np.float64)}, [BATCHED])
    assert sample.feed["x"].dtype == np.float32
    np.testing.assert_array_equal(sample.feed["x"], X[:1])
    (half,) = open_samples({"x": X[:1]}, [spec("x", 1, 3, 4, dtype="float16")])
    np.testing.assert_array_equal(half.feed["x"], X[:1].astype(np.float16))
    (big,) = open_samples({"x": X[:1].astype(">f4")}, [BATCHED])
    np.testing.assert_array_equal(big.feed["x"], X[:1])


def test_a_float_beyond_the_models_type_is_refused() -> None:
    with pytest.raises(DataError, match="float32 cannot represent"):
        list(open_samples({"x": np.full((1, 3, 4), 1e39)}, [BATCHED]))


def test_integers_are_cast_where_they_fit() -> None:
    inputs = [spec("ids", None, 5, dtype="int32")]
    for sample, row in zip(open_samples({"ids": IDS}, inputs), IDS, strict=True):
        assert sample.feed["ids"].dtype == np.int32
        np.testing.assert_array_equal(sample.feed["ids"][0], row)
    with pytest.raises(
        DataError, match=r"data\[0\]: .* contains 4294967296, .* int32 cannot represent"
    ):
        list(open_samples({"ids": IDS + 2**32 - IDS}, inputs))


def test_a_sample_that_holds_nan_is_named_or_skipped(tmp_path: Path) -> None:
    spoilt = X.copy()
    spoilt[7, 1, 1] = np.nan
    np.savez(tmp_path / "d.npz", x=spoilt)
    with pytest.raises(DataError, match=r"d\.npz\[7\]: input 'x' contains NaN"):
        list(open_samples(tmp_path / "d.npz", [BATCHED]))
    samples = open_samples(tmp_path / "d.npz", [BATCHED], skip_bad=True)
    assert len(list(samples)) == 11
    assert [name for name, _ in samples.skipped] == ["d.npz[7]"]


def test_positive_infinity_is_refused_and_the_row_named() -> None:
    spoilt = X.copy()
    spoilt[7, 1, 1] = np.inf
    with pytest.raises(DataError, match=r"data\[7\]: input 'x' contains \+inf"):
        list(open_samples({"x": spoilt}, [BATCHED]))


def test_a_feed_of_no_rows_is_refused_and_an_empty_axis_further_on_is_not() -> None:
    with pytest.raises(DataError, match=r"data\[1\]: input 'x' of shape \[0, 3\] is empty"):
        list(open_samples([np.ones((1, 3)), np.ones((0, 3))], [spec("x", None, 3)]))
    (sample,) = open_samples([np.ones((1, 0))], [spec("x", None, None)])
    assert sample.feed["x"].shape == (1, 0)


def test_negative_infinity_passes_because_masks_are_made_of_it() -> None:
    mask = np.full((1, 3, 4), -np.inf)
    (sample,) = open_samples({"x": mask}, [BATCHED])
    np.testing.assert_array_equal(sample.feed["x"], mask)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save])
def test_reading_rows_never_holds_the_whole_array(tmp_path: Path, save: Any) -> None:
    path = tmp_path / ("d.npy" if save is np.save else "d.npz")
    whole = np.zeros((400, 100, 100), np.float32)
    save(path, whole) if save is np.save else save(path, x=whole)
    samples = open_samples(path, [spec("x", None, 100, 100)]).subset([0, 5, 398])
    tracemalloc.start()
    try:
        assert sum(sample.feed["x"].size for sample in samples) == 30000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < whole.nbytes / 4


def test_preprocessing_options_for_arrays_are_refused() -> None:
    with pytest.raises(UsageError, match=r"apply only to images.*such arrays are fed unchanged"):
        open_samples({"x": X}, [BATCHED], Preprocess(scale=2.0))


def test_a_feed_without_elements_keeps_its_shape(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X[:1, :0])
    (sample,) = open_samples(tmp_path, [spec("x", None, None, 4)])
    assert sample.feed["x"].shape == (1, 0, 4)


def test_rows_for_a_model_without_inputs_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz")
    with pytest.raises(DataError, match="the model has no inputs"):
        open_samples(tmp_path / "d.npz", [])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_rows_of_a_stored_npz_are_read_at_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any
) -> None:
    """The rows of a shard alone are read; those of a compressed file need all before them."""
    rows = RNG.standard_normal((400, 3, 1000)).astype(np.float32)
    save(tmp_path / "d.npz", x=rows)
    samples = open_samples(tmp_path / "d.npz", [spec("x", None, 3, 1000)])
    assert samples.origin is not None
    assert samples.origin.finds_samples == (save is np.savez)
    taken, read = list[int](), zipfile.ZipExtFile.read

    def count(file: zipfile.ZipExtFile, size: int | None = -1) -> bytes:
        content = read(file, size)
        taken.append(len(content))
        return content

    monkeypatch.setattr(zipfile.ZipExtFile, "read", count)
    found = [s.feed["x"][0] for s in samples.shard(1, 100)]
    np.testing.assert_array_equal(found, rows[1::100])
    assert (sum(taken) > rows.nbytes // 2) == (save is np.savez_compressed)


@pytest.mark.parametrize(
    "again", [{"x": X[:5]}, {"x": X.astype(np.float64)}, {"z": X}, {"x": X[0, 0, 0]}]
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_that_is_written_again_with_other_arrays_is_refused(
    tmp_path: Path, save: Any, again: dict[str, NDArray[Any]]
) -> None:
    save(tmp_path / "d.npz", x=X, y=X)
    samples = open_samples(tmp_path / "d.npz", [spec("x", None, 3, 4), spec("y", None, 3, 4)])
    assert len(list(samples)) == 12
    save(tmp_path / "d.npz", **{"y": X, **again})
    with pytest.raises(DataError, match=r"d\.npz: was written again with other arrays"):
        list(samples)
