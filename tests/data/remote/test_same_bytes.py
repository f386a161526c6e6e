"""All ways to share samples and to name them give the bytes of one process on a folder: model, plan, statistics."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from brightness import COUNT, write_brightness_images
from cluster import DaskProcesses, run_dask
from networks import build_network, gaussian_array
from object_store import point_to, run_store, upload
from parts import CONV, WB
from waiting_pool import start_at_once

import ptq
from ptq.observers.calibration_file import from_bytes
from ptq.solver.partition.cost_table import ORT_1_31_AVX512_VNNI

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

pytestmark = pytest.mark.remote

PREPROCESS = ptq.Preprocess(mean=(0.2,), std=(0.25,))
MODEL = build_network(
    CONV + "r = Relu(c)\ns = Flatten(r)\ny = MatMul(s, f)",
    {"x": ("n", WB["w"].shape[1], 8, 8)},
    **WB,
    f=gaussian_array(WB["w"].shape[0] * 64, 5) / 8,
)
Bytes = tuple[bytes, str, bytes]
"""The content of a model, of its plan, and of the statistics."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images, beside ``model.onnx``."""
    folder = tmp_path_factory.mktemp("ways")
    onnx.save(MODEL, folder / "model.onnx")
    return write_brightness_images(folder / "images")


@pytest.fixture(scope="module")
def dask(images: Path) -> Iterator[DaskProcesses]:
    with run_dask(images, 2) as found:
        yield found


def calibrate(images: Path, data: Any, **options: Any) -> ptq.Calibration:
    return ptq.calibrate(
        images.parent / "model.onnx", data,
        preprocess=PREPROCESS, threads=1, keep_samples=COUNT, **options,
    )  # fmt: skip


def quantize(images: Path, data: Any, folder: Path, **options: Any) -> tuple[bytes, str]:
    result = ptq.quantize(
        images.parent / "model.onnx", data, eval_data=images, preprocess=PREPROCESS, threads=1,
        cost_table=ORT_1_31_AVX512_VNNI, force=True, **options,
    )  # fmt: skip
    result.save(folder / "made.onnx")
    return (folder / "made.onnx").read_bytes(), result.plan.to_json()


def make(images: Path, data: Any, folder: Path, **options: Any) -> Bytes:
    stats = calibrate(images, data, **options).to_bytes()
    return *quantize(images, data, folder, **options), stats


@pytest.fixture(scope="module")
def whole(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Bytes:
    """What one process makes of the folder."""
    return make(images, images, tmp_path_factory.mktemp("whole"))


def test_what_is_compared_has_integer_weights_and_counts_all_images(whole: Bytes) -> None:
    weights = onnx.load_from_string(whole[0]).graph.initializer
    assert onnx.TensorProto.INT8 in [weight.data_type for weight in weights]
    assert from_bytes(whole[2], "statistics").samples == COUNT


@pytest.mark.parametrize("workers", [2, 4])
def test_processes_give_the_same_bytes(
    images: Path, whole: Bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    start_at_once(monkeypatch)
    assert make(images, images, tmp_path, workers=workers) == whole


def test_a_dask_cluster_gives_the_same_bytes(
    images: Path, whole: Bytes, dask: DaskProcesses, tmp_path: Path
) -> None:
    assert make(images, images, tmp_path, cluster=dask.address) == whole


def test_three_shards_of_an_array_job_give_the_same_bytes(
    images: Path, whole: Bytes, tmp_path: Path
) -> None:
    for k in range(3):
        calibrate(images, images, shard=(k, 3)).save(tmp_path / f"{k}.npz")
    merged = ptq.merge_statistics([ptq.Calibration.load(tmp_path / f"{k}.npz") for k in (2, 0, 1)])
    merged.save(tmp_path / "stats.npz")
    assert merged.to_bytes() == whole[2]
    (tmp_path / "whole.npz").write_bytes(whole[2])
    found, alone = (
        quantize(images, None, tmp_path, stats=tmp_path / name)
        for name in ("stats.npz", "whole.npz")
    )
    assert found == alone == whole[:2]


def write_tars(images: Path, folder: Path) -> str:
    """Three tar files of the images, and the text that names them."""
    files = sorted(images.rglob("*.png"))
    for k in range(3):
        with tarfile.open(folder / f"data-{k}.tar", "w") as archive:
            for file in files[k::3]:
                archive.add(file, file.relative_to(images).as_posix())
    return f"{folder}/data-{{0..2}}.tar"


def write_parquet(images: Path, path: Path) -> Path:
    files = sorted(images.rglob("*.png"))
    rows = [{"bytes": f.read_bytes(), "path": f.relative_to(images).as_posix()} for f in files]
    table = pa.table({"image": rows, "label": [int(f.parent.name[0]) for f in files]})
    pq.write_table(table, path, row_group_size=5)
    return path


@pytest.mark.parametrize("way", ["store", "tar", "parquet", "parquet on a cluster"])
def test_data_in_other_places_give_the_same_bytes(
    images: Path, whole: Bytes, dask: DaskProcesses, tmp_path: Path, way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if way == "store":
        with run_store() as port:
            point_to(monkeypatch, port)
            assert make(images, upload(images, "ways"), tmp_path) == whole
    elif way == "tar":
        assert make(images, write_tars(images, tmp_path), tmp_path) == whole
    else:
        data = write_parquet(images, tmp_path / "data.parquet")
        where = {"cluster": dask.address} if way.endswith("cluster") else {}
        assert make(images, data, tmp_path, **where) == whole
