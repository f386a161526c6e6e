"""Parquet files as Hugging Face's datasets writes them; the same samples in a folder or in arrays are the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from brightness import brightness_model, write_brightness_images
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import DataError, UsageError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

PREPROCESS = ptq.Preprocess(mean=(0.2,), std=(0.25,))
SPECS = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]
ROWS = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 2, 3))]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    onnx.save(brightness_model(), tmp_path / "model.onnx")
    return write_brightness_images(tmp_path / "images")


def table_of(images: Path, path: bool = True) -> pa.Table:
    files = sorted(images.rglob("*.png"), key=lambda f: f.relative_to(images).as_posix())
    rows = [
        {"bytes": f.read_bytes(), "path": f.relative_to(images).as_posix() if path else None}
        for f in files
    ]
    return pa.table({"image": rows, "label": [int(f.parent.name[0]) for f in files]})


def calibrate(images: Path, data: object) -> ptq.Calibration:
    model = images.parent / "model.onnx"
    return ptq.calibrate(model, data, preprocess=PREPROCESS, threads=1)


def test_rows_of_images_give_the_bytes_of_the_folder(images: Path) -> None:
    expected = calibrate(images, images).to_bytes()
    table = table_of(images)
    pq.write_table(table, images.parent / "a.parquet", row_group_size=5)
    assert calibrate(images, images.parent / "a.parquet").to_bytes() == expected
    (images.parent / "parts").mkdir()
    for k in range(2):
        pq.write_table(table.slice(12 * k, 12), images.parent / "parts" / f"{k}.parquet")
    assert calibrate(images, images.parent / "parts").to_bytes() == expected
    assert calibrate(images, f"{images.parent}/parts/*.parquet").to_bytes() == expected


def test_a_quantized_model_of_rows_is_that_of_the_folder(images: Path) -> None:
    pq.write_table(table_of(images), images.parent / "a.parquet", row_group_size=7)
    made = [
        ptq.quantize(
            images.parent / "model.onnx", data, preprocess=PREPROCESS, threads=1, force=True
        )
        for data in (images, images.parent / "a.parquet")
    ]
    assert made[0].plan.to_json() == made[1].plan.to_json()
    assert made[0].graph.digest() == made[1].graph.digest()


def test_labels_and_names_are_those_of_the_rows(images: Path) -> None:
    pq.write_table(table_of(images), images.parent / "a.parquet", row_group_size=7)
    found = ptq.open_samples(images.parent / "a.parquet", SPECS, PREPROCESS)
    expected = [(s.name, s.labels) for s in ptq.open_samples(images, SPECS, PREPROCESS)]
    assert [(s.name, s.labels) for s in found] == expected
    assert [(s.name, s.labels) for s in found.shard(2, 5)] == expected[2::5]


def test_images_without_paths_are_named_by_number(images: Path) -> None:
    pq.write_table(table_of(images, path=False), images.parent / "a.parquet")
    found = ptq.open_samples(images.parent / "a.parquet", SPECS, PREPROCESS)
    assert found.identities == [str(k) for k in range(24)]
    assert (
        calibrate(images, images.parent / "a.parquet").tensors == calibrate(images, images).tensors
    )


def test_lists_and_tensors_feed_arrays(tmp_path: Path) -> None:
    x = gaussian_array(6, 2, 3)
    flat = pa.array(x.reshape(6, 6).tolist(), pa.list_(pa.float32()))
    nested = pa.array(x.tolist(), pa.list_(pa.list_(pa.float32())))
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(x)
    for number, column in enumerate((flat, nested, tensor)):
        place = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"x": column, "label": list(range(6))}), place)
        found = list(ptq.open_samples(place, ROWS))
        assert np.array_equal(np.concatenate([s.feed["x"] for s in found]), x)
        assert [s.labels for s in found] == [(k,) for k in range(6)]
    model = build_network(
        "f = Flatten(x)\ny = Gemm(f, w)", {"x": ("n", 2, 3)}, w=gaussian_array(6, 4)
    )
    one, other = (
        ptq.calibrate(model, data, threads=1).to_bytes()
        for data in ({"x": x}, tmp_path / "0.parquet")
    )
    assert one == other


def test_lists_and_tensors_of_uint8_are_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 10, 3), np.uint8)
    spec = ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, 8, 10))
    options = ptq.Preprocess(mean=(0.5,), std=(0.25,))
    expected = [sample.feed["x"] for sample in ptq.open_samples({"x": pixels}, [spec], options)]
    columns = [
        pa.array(pixels.tolist(), pa.list_(pa.list_(pa.list_(pa.uint8())))),
        pa.array(pixels.tolist(), pa.large_list(pa.list_(pa.list_(pa.uint8(), 3), 10))),
        pa.FixedShapeTensorArray.from_numpy_ndarray(pixels),
    ]
    for column in columns:
        pq.write_table(pa.table({"x": column}), tmp_path / "x.parquet")
        found = list(ptq.open_samples(str(tmp_path / "x.parquet"), [spec], options))
        np.testing.assert_array_equal([sample.feed["x"] for sample in found], expected)


def test_tensors_keep_their_shape_and_are_not_taken_in_another(tmp_path: Path) -> None:
    free = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 2, None, None))]
    fixed = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 2, 3, 4))]
    x, place = gaussian_array(5, 2, 3, 4), tmp_path / "x.parquet"

    def write(array: np.ndarray) -> None:
        pq.write_table(pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(array)}), place)

    write(x)
    for specs in (free, fixed):
        found = list(ptq.open_samples(place, specs))
        assert np.array_equal(np.concatenate([sample.feed["x"] for sample in found]), x)
    one = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 1, 3, 4))]
    plane = np.ascontiguousarray(x[:, 0])
    for array in (plane, plane[:, None], plane[..., None]):  # Arrow calls the second one permuted
        write(array)
        found = list(ptq.open_samples(place, one))
        assert np.array_equal(
            np.concatenate([sample.feed["x"] for sample in found]), plane[:, None]
        )
    last = x.transpose(0, 2, 3, 1)
    write(np.ascontiguousarray(last))
    with pytest.raises(DataError, match=r"it looks like NHWC for NCHW"):
        list(ptq.open_samples(place, fixed))
    write(last)
    with pytest.raises(DataError, match=r"a tensor with permuted axes; write it from an array in"):
        list(ptq.open_samples(place, fixed))


def test_what_is_no_parquet_file_or_feeds_nothing_is_one_line(images: Path) -> None:
    place = images.parent / "a.parquet"
    pq.write_table(table_of(images), place)
    content = place.read_bytes()
    for damaged in (b"", content[:-10], content[: len(content) // 2], b"PAR1" * 10):
        place.write_bytes(damaged)
        with pytest.raises(
            DataError, match=r"a\.parquet: not a Parquet file, or damaged"
        ) as caught:
            calibrate(images, place)
        assert "\n" not in str(caught.value)
    pq.write_table(pa.table({"a": [1.0], "b": [2.0]}), place)
    with pytest.raises(DataError, match="columns must be named as the model's inputs"):
        calibrate(images, place)
    pq.write_table(pa.table({"image": [{"bytes": b"no image", "path": "a.png"}]}), place)
    with pytest.raises(DataError, match="not an image"):
        calibrate(images, place)


def test_a_missing_package_is_one_line_with_the_command(images: Path, monkeypatch) -> None:
    pq.write_table(table_of(images), images.parent / "a.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r'not installed; pip install "onnx-ptq\[parquet\]"$'):
        calibrate(images, images.parent / "a.parquet")


def test_a_damaged_image_is_one_line_with_the_reason(images: Path) -> None:
    """Pillow would decode it: the checksum of its pixels is wrong."""
    content = next(iter(sorted(images.rglob("*.png")))).read_bytes()
    damaged = content[:-13] + bytes([content[-13] ^ 1]) + content[-12:]
    pq.write_table(pa.table({"image": [damaged]}), images.parent / "a.parquet")
    with pytest.raises(DataError, match=r"cannot read the image: .*checksum"):
        calibrate(images, images.parent / "a.parquet")
