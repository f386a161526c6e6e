"""Data of PyTorch, ONNX Runtime, Hugging Face, pandas and TensorFlow, with the packages themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.quantization import CalibrationDataReader
from PIL import Image

from ptq.core.errors import DataError, UsageError
from ptq.data import InputSpec, Preprocess, Samples, open_samples
from ptq.data.sources.indexed_items import IndexedItems

X = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
Y = np.arange(10)
SPEC = InputSpec("x", np.dtype(np.float32), (None, 4))
IDS = InputSpec("ids", np.dtype(np.int64), (None, None))
IMAGE = InputSpec("pixel_values", np.dtype(np.float32), (None, 3, 8, 10))
PIXELS = np.random.default_rng(1).integers(0, 256, (5, 20, 30, 3), np.uint8)


def require_rows(data: Any, labels: bool = True, inputs: Any = (SPEC,)) -> None:
    """The data are the ten rows, on each of two passes."""
    samples = open_samples(data, inputs)
    for _ in range(2):
        found = list(samples)
        np.testing.assert_array_equal(np.concatenate([s.feed["x"] for s in found]), X)
        assert [s.labels for s in found] == [(k,) if labels else () for k in range(10)]
    assert len(samples) == 10


class TestTorch:
    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch", reason="torch is not installed")

    @pytest.mark.parametrize("batch_size", [1, 4, None])
    def test_a_dataloader_that_yields_lists_of_input_and_label(
        self, torch: Any, batch_size: int | None
    ) -> None:
        dataset = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
        require_rows(torch.utils.data.DataLoader(dataset, batch_size=batch_size))

    def test_a_dataloader_that_yields_dicts(self, torch: Any) -> None:
        rows = [{"x": torch.tensor(x), "labels": int(y)} for x, y in zip(X, Y, strict=True)]
        require_rows(torch.utils.data.DataLoader(rows, batch_size=4))

    def test_a_dataloader_of_tensors_alone(self, torch: Any) -> None:
        require_rows(torch.utils.data.DataLoader(torch.tensor(X), batch_size=4), labels=False)

    def test_a_dataset_with_random_access(self, torch: Any) -> None:
        dataset = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
        require_rows(dataset)
        samples = open_samples(dataset, [SPEC], limit=5)
        assert [s.labels for s in samples] == [(0,), (2,), (4,), (6,), (8,)]

    def test_an_iterable_dataset(self, torch: Any) -> None:
        class Rows(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined] # torch is a fixture
            def __iter__(self) -> Iterator[Any]:
                return iter(zip(torch.tensor(X), Y.tolist(), strict=True))

        require_rows(Rows())

    def test_tensors_and_dicts_of_tensors(self, torch: Any) -> None:
        x = torch.tensor(X, requires_grad=True)
        require_rows(x, labels=False)
        require_rows({"x": x, "labels": torch.tensor(Y)})

    def test_tensors_of_bfloat16_are_float32(self, torch: Any) -> None:
        x = torch.tensor(X).bfloat16()
        found = [s.feed["x"] for s in open_samples([x], [SPEC])]
        np.testing.assert_array_equal(np.concatenate(found), x.float().numpy())

    def test_images_of_uint8_tensors(self, torch: Any) -> None:
        chw = torch.tensor(PIXELS).permute(0, 3, 1, 2)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(chw, torch.arange(5)), batch_size=2
        )
        pre = Preprocess(mean=(0.5,), std=(0.5,))
        expected = [s.feed["pixel_values"] for s in open_samples(list(PIXELS), [IMAGE], pre)]
        found = [s.feed["pixel_values"] for s in open_samples(loader, [IMAGE], pre)]
        np.testing.assert_array_equal(found, expected)

    def test_random_augmentation_of_a_dataset_is_refused(self, torch: Any) -> None:
        class Noisy(torch.utils.data.Dataset):  # type: ignore[misc,name-defined] # torch is a fixture
            def __len__(self) -> int:
                return 3

            def __getitem__(self, index: int) -> Any:
                return torch.rand(4)

        kept = open_samples(Noisy(), [SPEC])
        first, second = ([s.digest for s in kept] for _ in range(2))
        assert first == second  # one reading is kept in memory, and none is compared
        items = Noisy()
        samples = Samples(IndexedItems(items.__getitem__, len(items), [SPEC], "data"))
        list(samples)
        with pytest.raises(DataError, match=r"data\[0\]: is not the same as on the first reading"):
            list(samples)

    def test_a_sparse_tensor_is_refused(self, torch: Any) -> None:
        with pytest.raises(DataError, match="cannot convert Tensor to an array"):
            list(open_samples([torch.tensor(X).to_sparse()], [SPEC]))

    def test_a_model_of_two_inputs_takes_them_in_order(self, torch: Any) -> None:
        ids = torch.arange(30).reshape(10, 3)
        dataset = torch.utils.data.TensorDataset(torch.tensor(X), ids, torch.tensor(Y))
        require_rows(torch.utils.data.DataLoader(dataset, batch_size=4), inputs=(SPEC, IDS))


class Reader(CalibrationDataReader):  # type: ignore[misc] # onnxruntime has no types
    def __init__(self, size: int) -> None:
        self.feeds = iter([{"x": X[k : k + size]} for k in range(0, 10, size)])

    def get_next(self) -> Any:
        return next(self.feeds, None)


@pytest.mark.parametrize("size", [1, 5])
def test_a_calibration_data_reader_of_onnx_runtime(size: int) -> None:
    found = list(open_samples(Reader(size), [SPEC]))
    np.testing.assert_array_equal(np.concatenate([s.feed["x"] for s in found]), X)


class TestHuggingFace:
    @pytest.fixture
    def datasets(self) -> Any:
        return pytest.importorskip("datasets", reason="datasets is not installed")

    def images(self, datasets: Any) -> Any:
        features = {"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=5)}
        features["idx"] = datasets.Value("int64")
        columns = {
            "image": [Image.fromarray(p) for p in PIXELS],
            "label": range(5),
            "idx": range(5),
        }
        return datasets.Dataset.from_dict(columns, features=datasets.Features(features))

    def require_images(self, data: Any) -> None:
        expected = open_samples(list(PIXELS), [IMAGE], Preprocess())
        found = list(open_samples(data, [IMAGE]))
        assert [s.labels for s in found] == [(k,) for k in range(5)]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.feed["pixel_values"], other.feed["pixel_values"])

    def test_images_and_labels(self, datasets: Any) -> None:
        self.require_images(self.images(datasets))

    def test_streamed_images(self, datasets: Any) -> None:
        self.require_images(self.images(datasets).to_iterable_dataset())

    def test_a_column_of_classes_under_another_name_is_the_label(self, datasets: Any) -> None:
        data = self.images(datasets).rename_columns({"image": "img", "label": "fine"})
        self.require_images(data)

    def test_batches_of_images(self, datasets: Any) -> None:
        self.require_images(self.images(datasets).batch(2))

    @pytest.mark.parametrize("kind", [None, "numpy", "torch"])
    def test_arrays_in_each_format(self, datasets: Any, kind: str | None) -> None:
        if kind == "torch":
            pytest.importorskip("torch", reason="torch is not installed")
        features = datasets.Features(
            {"x": datasets.Sequence(datasets.Value("float32")), "label": datasets.Value("int64")}
        )
        data = datasets.Dataset.from_dict({"x": X.tolist(), "label": Y.tolist()}, features=features)
        require_rows(data.with_format(kind))
        require_rows(data.with_format(kind).to_iterable_dataset())

    def test_a_transform_decides_the_columns(self, datasets: Any) -> None:
        data = datasets.Dataset.from_dict({"index": range(10)})
        require_rows(
            data.with_transform(lambda rows: {"x": X[rows["index"]], "labels": rows["index"]})
        )

    def test_tokens_of_two_inputs(self, datasets: Any) -> None:
        mask = InputSpec("mask", np.dtype(np.int64), (None, None))
        rows = [list(range(n)) for n in (3, 5, 2)]
        data = datasets.Dataset.from_dict({"ids": rows, "mask": rows, "text": ["a", "b", "c"]})
        found = [s.feed["ids"].tolist() for s in open_samples(data, [IDS, mask])]
        assert found == [[row] for row in rows]

    def test_a_dict_of_splits_is_refused_with_their_names(self, datasets: Any) -> None:
        data = datasets.DatasetDict({"train": self.images(datasets)})
        with pytest.raises(
            UsageError, match=r"DatasetDict with the splits 'train'; .*data\['train'\]"
        ):
            open_samples(data, [IMAGE])

    def test_columns_that_feed_no_input_are_named(self, datasets: Any) -> None:
        data = datasets.Dataset.from_dict({"u": [1.0], "v": [2.0]})
        with pytest.raises(DataError, match="the columns are 'u', 'v': rename or remove"):
            open_samples(data, [SPEC])


class TestPandas:
    @pytest.fixture
    def pandas(self) -> Any:
        return pytest.importorskip("pandas", reason="pandas is not installed")

    def test_paths_and_labels(self, pandas: Any, tmp_path: Path) -> None:
        for k, pixels in enumerate(PIXELS):
            Image.fromarray(pixels).save(tmp_path / f"{k}.png")
        names = [str(tmp_path / f"{k}.png") for k in range(5)]
        frame = pandas.DataFrame({"width": 30, "file": names, "label": range(5)})
        expected = open_samples(tmp_path, [IMAGE])
        found = list(open_samples(frame, [IMAGE]))
        assert [s.labels for s in found] == [(k,) for k in range(5)]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.feed["pixel_values"], other.feed["pixel_values"])

    def test_a_frame_of_features_feeds_the_only_input(self, pandas: Any) -> None:
        frame = pandas.DataFrame(X, columns=list("abcd"))
        require_rows(frame.assign(labels=Y))
        require_rows(frame, labels=False)

    def test_columns_of_one_name_are_each_a_feature_and_no_input(self, pandas: Any) -> None:
        require_rows(pandas.DataFrame(X, columns=["a", "a", "b", "a"]).assign(labels=Y))
        twice = pandas.DataFrame({"x": list(X), "y": list(X), "label": Y})
        for names in (["x", "x", "label"], ["x", "label", "label"]):
            with pytest.raises(DataError, match=r"2 columns are named '(x|label)'; rename one"):
                open_samples(twice.set_axis(names, axis=1), [SPEC])
        labelled = pandas.DataFrame(X, columns=["a", "b", "labels", "labels"])
        with pytest.raises(DataError, match="2 columns are named 'labels'; rename one"):
            open_samples(labelled, [InputSpec("x", np.dtype(np.float32), (None, 2))])

    def test_labels_count_before_label_as_in_other_data(self, pandas: Any) -> None:
        frame = pandas.DataFrame(X, columns=list("abcd")).assign(labels=Y, label=99)
        require_rows(frame)
        require_rows(pandas.DataFrame({"x": list(X), "label": 99, "labels": Y}))
        require_rows([{"x": x, "label": 99, "labels": int(y)} for x, y in zip(X, Y, strict=True)])

    @pytest.mark.parametrize("types", ["Float32", "Float64", "pyarrow"])
    def test_a_frame_of_nullable_or_arrow_types_feeds_the_same(
        self, pandas: Any, types: str
    ) -> None:
        frame = pandas.DataFrame(X, columns=list("abcd")).assign(labels=Y)
        if types == "pyarrow":
            pytest.importorskip("pyarrow", reason="pyarrow is not installed")
            require_rows(frame.convert_dtypes(dtype_backend="pyarrow"))
        else:
            require_rows(frame.astype(dict.fromkeys("abcd", types)))

    def test_a_missing_number_of_a_nullable_type_is_named(self, pandas: Any) -> None:
        frame = pandas.DataFrame(X, columns=list("abcd")).astype("Float32")
        frame.loc[3, "b"] = None
        with pytest.raises(DataError, match=r"data\[3\]: input 'x' contains NaN"):
            list(open_samples(frame, [SPEC]))

    @pytest.mark.parametrize("name", ["object", "string"])
    def test_a_column_that_is_no_number_is_named(self, pandas: Any, name: str) -> None:
        frame = pandas.DataFrame(X, columns=list("abcd"))
        frame["c"], frame["d"] = frame.c.astype(name), frame.d.astype(name)
        with pytest.raises(DataError, match=f"column 'c' has type {name}"):
            list(open_samples(frame, [SPEC]))

    def test_a_column_for_each_input(self, pandas: Any) -> None:
        inputs = [InputSpec(n, np.dtype(np.float32), (None, 1)) for n in ("a", "b")]
        frame = pandas.DataFrame({"b": X[:, 1], "a": X[:, 0], "c": "text"})
        found = list(open_samples(frame, inputs))
        assert [s.feed["a"].item() for s in found] == X[:, 0].tolist()
        assert [s.feed["b"].shape for s in found] == [(1, 1)] * 10


class TestTensorFlow:
    @pytest.fixture
    def tf(self) -> Any:
        return pytest.importorskip("tensorflow", reason="tensorflow is not installed")

    @pytest.mark.parametrize("batch_size", [None, 4])
    def test_a_dataset_of_pairs_and_of_dicts(self, tf: Any, batch_size: int | None) -> None:
        for slices in ((X, Y), {"x": X, "labels": Y}):
            data = tf.data.Dataset.from_tensor_slices(slices)
            require_rows(data if batch_size is None else data.batch(batch_size))

    def test_a_ragged_tensor_is_refused(self, tf: Any) -> None:
        with pytest.raises(DataError, match="RaggedTensor"):
            list(open_samples([tf.ragged.constant([[1.0], [2.0, 3.0]])], [SPEC]))
