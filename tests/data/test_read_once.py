"""Streams from Python are read once, or compared on each pass; counting the passes is the oracle."""

from __future__ import annotations

import gc
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from networks import build_network, gaussian_array
from PIL import Image

import ptq
from ptq.core.errors import DataError, UsageError
from ptq.data import InputSpec, Sample, Samples, open_samples, sample_store

MODEL = build_network(
    "y = Gemm(x, w, b)", {"x": ("n", 8)}, w=gaussian_array(8, 4), b=gaussian_array(4)
)
DATA = gaussian_array(60, 8, seed=1)
SPEC = InputSpec("x", np.dtype(np.float32), (None, 8))
IMAGE = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))


class Loader:
    """A callable that counts how often it is run, and can shuffle each time."""

    def __init__(self, *, shuffled: bool = False, count: int = 60) -> None:
        self.runs = 0
        self.shuffled = shuffled
        self._count = count
        self._random = random.Random(0)

    def __call__(self) -> Iterator[tuple[dict[str, Any], int]]:
        self.runs += 1
        order = list(range(self._count))
        if self.shuffled:
            self._random.shuffle(order)
        buffer = np.empty((1, 8), np.float32)  # the same array each time, as some loaders do
        for k in order:
            buffer[0] = DATA[k]
            yield {"x": buffer}, k % 4


@pytest.fixture
def without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_store, "MEMORY_BYTES", 1000)


def open_stream(loader: Callable[[], Any], **options: Any) -> Samples:
    return open_samples(loader, [SPEC], **options)


def values(samples: Samples) -> list[float]:
    return [float(sample.feed["x"][0, 0]) for sample in samples]


def test_quantize_runs_a_callable_once() -> None:
    loader = Loader()
    kept = ptq.quantize(MODEL, loader, threads=1)
    assert loader.runs == 1
    from_arrays = ptq.quantize(MODEL, DATA, threads=1)
    assert kept.graph.digest() == from_arrays.graph.digest()


def test_s3_a_shuffling_loader_that_fits_is_read_once() -> None:
    loader = Loader(shuffled=True)
    report = ptq.quantize(MODEL, loader, threads=1).report
    assert loader.runs == 1
    assert report.evaluated_on == "on samples held out from calibration"
    assert report.shared_samples == 0


@pytest.mark.usefixtures("without_memory")
def test_s3_a_shuffling_loader_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"another sample, unlike on the first pass.* \(option cache\)"
    ):
        ptq.quantize(MODEL, Loader(shuffled=True), threads=1)


@pytest.mark.usefixtures("without_memory")
def test_s3_a_shuffling_loader_that_does_not_fit_is_read_once_into_a_cache(tmp_path: Path) -> None:
    loader = Loader(shuffled=True)
    report = ptq.quantize(MODEL, loader, cache=tmp_path, threads=1).report
    assert loader.runs == 1
    assert report.shared_samples == 0
    assert list(tmp_path.iterdir()) == []  # nothing remains


@pytest.mark.usefixtures("without_memory")
def test_a_steady_loader_that_does_not_fit_is_read_on_each_pass() -> None:
    loader = Loader()
    streamed = ptq.quantize(MODEL, loader, threads=1)
    assert loader.runs > 1
    from_arrays = ptq.quantize(MODEL, DATA, threads=1)
    assert streamed.graph.digest() == from_arrays.graph.digest()


@pytest.mark.usefixtures("without_memory")
def test_other_labels_on_a_later_pass_are_refused() -> None:
    runs = iter(range(100))

    def feeds() -> Iterator[Any]:
        run = next(runs)
        return (({"x": row[None]}, run) for row in DATA)

    with pytest.raises(DataError, match=r"feeds\[0\]: is another sample"):
        len(open_stream(feeds))


@pytest.mark.usefixtures("without_memory")
def test_a_later_pass_that_ends_early_is_refused() -> None:
    lengths = iter([60, 60, 50])
    samples = open_stream(lambda: ({"x": row[None]} for row in DATA[: next(lengths)]))
    assert len(samples) == 60
    with pytest.raises(DataError, match=r"\[50\]: is missing, unlike on the first pass"):
        list(samples)


@pytest.mark.usefixtures("without_memory")
def test_a_subset_is_compared_too() -> None:
    loader = Loader()
    samples = open_stream(loader)
    assert len(samples) == 60
    loader.shuffled = True
    with pytest.raises(DataError, match="another sample"):
        list(samples.subset(range(40, 60)))


def test_a_generator_is_read_once_and_serves_every_pass() -> None:
    report = ptq.quantize(MODEL, (feed for feed in Loader()()), threads=1).report
    assert report.calibration_samples == 48


@pytest.mark.usefixtures("without_memory")
def test_a_generator_that_does_not_fit_is_refused_without_a_cache(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"read only once; keep them in a cache on disk \(option cache\)"
    ):
        len(open_stream(Loader()()))  # type: ignore[arg-type]
    assert len(open_stream(Loader()(), cache=tmp_path)) == 60  # type: ignore[arg-type]


def test_a_kept_sample_is_a_copy() -> None:
    samples = open_stream(Loader())
    for sample in samples:
        sample.feed["x"][:] = 0
    assert values(samples) == pytest.approx(DATA[:, 0].tolist())


@pytest.mark.parametrize("cache", [None, "1MB"])
def test_bad_samples_keep_their_place(cache: str | None) -> None:
    rows = [{"x": row[None]} for row in DATA[:5]]
    rows[2] = {"x": np.full((1, 8), np.nan, np.float32)}
    runs = []
    samples = open_stream(lambda: runs.append(1) or rows, skip_bad=True, cache=cache)
    for _ in range(2):
        assert values(samples) == pytest.approx(DATA[[0, 1, 3, 4], 0].tolist())
        assert [name for name, _ in samples.skipped] == ["<lambda>[2]"]
    assert len(runs) == 1


def test_an_endless_stream_is_read_as_far_as_it_is_used() -> None:
    def endless() -> Iterator[dict[str, Any]]:
        while True:
            yield {"x": DATA[:1]}

    assert len(values(open_stream(endless, limit=7))) == 7


def test_a_pass_that_fails_is_not_taken_for_the_whole() -> None:
    faults = iter([True, False])

    def feeds() -> Iterator[dict[str, Any]]:
        fails = next(faults)
        for k, row in enumerate(DATA):
            if fails and k == 30:
                raise RuntimeError("lost connection")
            yield {"x": row[None]}

    samples = open_stream(feeds)
    with pytest.raises(DataError, match="lost connection"):
        len(samples)
    assert len(samples) == 60


def test_a_full_cache_stops_the_run() -> None:
    with pytest.raises(DataError, match=r"\[31\]: the cache is full"):
        len(open_stream(Loader(), cache=1000))


def test_a_cache_on_a_full_disk_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_full(dir: Path) -> IO[bytes]:
        return Path("/dev/full").open("w+b")

    unraised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    monkeypatch.setattr(tempfile, "TemporaryFile", open_full)
    store = sample_store.FileStore(sample_store.CacheLimits(None, None))
    with pytest.raises(DataError, match="cannot write: No space left"):
        store.add(Sample("a", {"x": np.zeros(4, np.float32)}, ()))
    del store
    gc.collect()
    assert not unraised


@pytest.mark.parametrize(
    ("option", "size"),
    [
        (5000, 5000),
        ("5000", 5000),
        ("2kB", 2000),
        ("2KiB", 2048),
        ("1.5 MB", 1_500_000),
        ("20GB", 20 * 10**9),
    ],
)
def test_sizes_of_a_cache_are_read(option: int | str, size: int) -> None:
    assert sample_store.parse_cache(option).size == size


@pytest.mark.parametrize("option", ["", "no/such/folder", "-1", 0, "GB"])
def test_a_cache_that_is_no_folder_and_no_size_is_refused(option: int | str) -> None:
    with pytest.raises(UsageError, match="cache"):
        open_stream(Loader(), cache=option)


def test_images_are_decoded_once_with_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    for k in range(6):
        pixels = np.random.default_rng(k).integers(0, 256, (5, 6, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{k}.png")
    plain = open_samples(tmp_path / "images", [IMAGE])
    cached = open_samples(tmp_path / "images", [IMAGE], cache="1MB")
    expected = [sample.digest for sample in plain]
    assert [sample.digest for sample in cached.subset([1, 4])] == [expected[1], expected[4]]
    assert [sample.digest for sample in cached] == expected
    assert cached.names == plain.names
    monkeypatch.setattr(
        "ptq.data.formats.image_reader.decode", None
    )  # no image can be decoded any more
    assert [sample.digest for sample in cached] == expected


def test_images_that_do_not_fit_in_the_cache_are_decoded_again(tmp_path: Path) -> None:
    for k in range(6):
        Image.new("RGB", (6, 5), (k, k, k)).save(tmp_path / f"{k}.png")
    plain, cached = (open_samples(tmp_path, [IMAGE], cache=c) for c in (None, 1000))
    for _ in range(2):
        assert [s.digest for s in cached] == [s.digest for s in plain]
