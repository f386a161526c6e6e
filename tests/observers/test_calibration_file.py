"""The statistics file: the same bytes for the same content, and one line for anything else."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptq.core.errors import PtqError, StatsError
from ptq.observers.calibration_file import Calibration, from_bytes, load
from ptq.observers.stats import TensorStats


def calibration(seed: int = 0, samples: int = 4, graph: str = "sha256:ab") -> Calibration:
    rng = np.random.default_rng(seed)
    tensors = {name: TensorStats() for name in ("b/relu:0", "a", "größe")}
    tensors["weight"] = TensorStats()
    for stats in tensors.values():
        stats.update(rng.normal(size=(3, 700)).astype(np.float32))
    tensors["pixels"] = TensorStats()
    tensors["pixels"].update(rng.integers(0, 256, 500).astype(np.float32))
    tensors["unseen"] = TensorStats()
    return Calibration(graph, samples, tensors)


CONTENT = calibration().to_bytes()


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    saved = calibration()
    saved.save(tmp_path / "stats.npz")
    assert load(tmp_path / "stats.npz") == saved
    assert [path.name for path in tmp_path.iterdir()] == ["stats.npz"]


def test_equal_content_gives_equal_bytes_whatever_the_order_of_the_tensors() -> None:
    one = calibration()
    other = Calibration(one.graph, one.samples, dict(reversed(one.tensors.items())))
    assert one.to_bytes() == other.to_bytes() == from_bytes(CONTENT, "x").to_bytes()


def test_shards_merge_to_the_bytes_of_one_run() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=5000).astype(np.float32)
    parts = []
    for piece in (x[:100], x[100:3000], x[3000:], x):
        stats = TensorStats()
        stats.update(piece)
        parts.append(Calibration("g", len(piece), {"t": stats}))
    *shards, whole = parts
    assert shards[2].merge(shards[0]).merge(shards[1]).to_bytes() == whole.to_bytes()


def test_numpy_reads_the_file(tmp_path: Path) -> None:
    calibration().save(tmp_path / "stats.npz")
    with np.load(tmp_path / "stats.npz") as file:
        names = file["names"].tobytes().decode().split("\0")
        assert names == sorted(calibration().tensors)
        assert int(file["samples"]) == 4
        number = names.index("pixels")
        assert file[f"{number}/values"].size <= 256


def test_no_entry_of_the_file_carries_a_time() -> None:
    with zipfile.ZipFile(io.BytesIO(CONTENT)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_an_empty_calibration_round_trips() -> None:
    empty = Calibration("g", 0, {})
    assert from_bytes(empty.to_bytes(), "x") == empty


def test_statistics_of_another_graph_are_refused(tmp_path: Path) -> None:
    calibration().save(tmp_path / "stats.npz")
    assert load(tmp_path / "stats.npz", graph="sha256:ab").samples == 4
    with pytest.raises(StatsError, match="belong to another graph"):
        load(tmp_path / "stats.npz", graph="sha256:cd")


def test_calibrations_of_different_graphs_or_tensors_do_not_merge() -> None:
    with pytest.raises(StatsError, match="different graphs"):
        calibration().merge(calibration(graph="sha256:cd"))
    with pytest.raises(StatsError, match="different graphs"):
        calibration().merge(Calibration("sha256:ab", 1, {}))


def test_a_missing_file_is_one_line_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StatsError, match=r"none\.npz: cannot be read") as caught:
        load(tmp_path / "none.npz")
    assert "\n" not in str(caught.value)


def test_a_place_that_cannot_be_written_is_one_line_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(PtqError, match=r"s\.npz cannot be written") as caught:
        calibration().save(tmp_path / "none" / "s.npz")
    assert "\n" not in str(caught.value)


def npz(compressed: bool = False, **arrays: object) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"not a zip" * 100,
        npz(x=np.zeros(3)),
        npz(format=np.array(1), names=np.zeros(3), samples=np.array(0)),
        npz(compressed=True, format=np.array(1)),
        npz(format=np.array(["a", None], dtype=object)),
        CONTENT[:-1000],
        CONTENT[: len(CONTENT) // 2],
    ],
)
def test_a_foreign_or_truncated_file_is_one_line_that_names_it(content: bytes) -> None:
    with pytest.raises(StatsError, match=r"^s\.npz: ") as caught:
        from_bytes(content, "s.npz")
    assert "\n" not in str(caught.value)


def test_a_later_format_is_refused() -> None:
    with pytest.raises(StatsError, match="format 2 is not 1"):
        from_bytes(npz(format=np.array(2)), "s.npz")


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_changed_byte_is_found_or_changes_nothing(position: int, change: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[position] ^= change
    try:
        read = from_bytes(bytes(damaged), "s.npz")
    except StatsError as error:
        message = str(error)
    else:
        message = ""
        assert read.to_bytes() == CONTENT
    assert "\n" not in message
