"""S8: statistics carry the preprocessing of their samples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptq.core.errors import StatsError
from ptq.core.record import encode_record
from ptq.observers.calibration_file import Calibration, from_bytes
from ptq.observers.stats import TensorStats

IMAGES = {"source": "images", "mean": [0.5], "scale": 1.0}
ALIKE = {"source": "images", "mean": [0.5, 0.5, 0.5], "scale": 1.0, "assumed": "a guess"}


def statistics(preprocess: dict[str, object] | None) -> Calibration:
    return Calibration("graph", 1, {"x": TensorStats()}, preprocess=preprocess)


@pytest.mark.parametrize("preprocess", [None, {"source": "feeds"}, IMAGES])
def test_the_file_holds_the_preprocessing_or_none_in_older_ones(
    preprocess: dict[str, object] | None,
) -> None:
    stored = statistics(preprocess).to_bytes()
    assert from_bytes(stored, "file") == statistics(preprocess)
    assert (b"preprocess" in stored) == (preprocess is not None)


def test_a_damaged_preprocessing_is_refused() -> None:
    text = encode_record(IMAGES).encode()
    stored = statistics(IMAGES).to_bytes()
    damaged = stored.replace(text, b"[" * len(text))
    assert damaged != stored
    with pytest.raises(StatsError, match="damaged"):
        from_bytes(damaged, "file")


def test_s8_shards_of_other_preprocessing_do_not_merge() -> None:
    with pytest.raises(StatsError, match=r"not prepared alike: mean 0.1 instead of 0.5"):
        statistics(IMAGES).merge(statistics({**IMAGES, "mean": [0.1]}))
    with pytest.raises(StatsError, match="arrays, fed as given, instead of images"):
        statistics(IMAGES).merge(statistics({"source": "feeds"}))


def test_equal_preprocessing_merges_to_one_record_in_every_order() -> None:
    one, two = statistics(IMAGES), statistics(ALIKE)
    assert one.merge(two).preprocess == two.merge(one).preprocess == ALIKE


def test_statistics_without_a_record_merge_as_ever_and_stay_without() -> None:
    older = replace(statistics(IMAGES), preprocess=None)
    assert older.merge(statistics(IMAGES)).preprocess is None
    assert statistics(IMAGES).merge(older).preprocess is None
