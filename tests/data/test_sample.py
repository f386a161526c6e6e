"""Choosing among samples without reading them; counting is the oracle."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ptq.core.errors import UsageError
from ptq.data import InputSpec, Samples, open_samples, split_holdout

SPEC = InputSpec("x", np.dtype(np.float32), (None, 2))
IMAGE = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))


def rows(count: int) -> Samples:
    values = np.arange(count, dtype=np.float32)
    return open_samples({"x": np.stack([values, values], 1)}, [SPEC])


def values(samples: Samples) -> list[int]:
    return [int(s.feed["x"][0, 0]) for s in samples]


def test_a_fifth_is_held_out_and_the_parts_make_the_whole() -> None:
    calibration, evaluation = split_holdout(rows(103))
    assert len(evaluation) == 20
    assert sorted(values(calibration) + values(evaluation)) == list(range(103))


def test_the_held_out_rows_are_those_of_lowest_hash() -> None:
    _, evaluation = split_holdout(rows(50))
    by_hash = sorted(range(50), key=lambda i: hashlib.sha256(str(i).encode()).hexdigest())
    assert values(evaluation) == sorted(by_hash[:10])


def test_fewer_than_fifty_samples_are_not_divided() -> None:
    samples = rows(49)
    assert split_holdout(samples) == (samples, samples)


def test_the_held_out_files_do_not_depend_on_where_the_folder_is(tmp_path: Path) -> None:
    parts = []
    for folder in ("here", "there/deeper"):
        for k in range(60):
            path = tmp_path / folder / f"class{k % 3}" / f"{k}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (1, 1)).save(path)
        parts.append(split_holdout(open_samples(tmp_path / folder, [IMAGE]))[1].names)
    assert parts[0] == parts[1]
    assert len(parts[0]) == 12


def test_limit_spreads_evenly_over_sorted_classes(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / name).mkdir()
        for k in range(8):
            Image.new("RGB", (1, 1)).save(tmp_path / name / f"{k}.png")
    samples = open_samples(tmp_path, [IMAGE], limit=10)
    assert [s.labels[0] for s in samples] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert len(open_samples(tmp_path, [IMAGE], limit=99)) == 40


def test_limit_comes_before_the_shard() -> None:
    data = {"x": np.arange(40, dtype=np.float32).reshape(20, 2)}
    whole = open_samples(data, [SPEC], limit=6)
    parts = [open_samples(data, [SPEC], limit=6, shard=(k, 2)) for k in range(2)]
    assert sorted(values(parts[0]) + values(parts[1])) == values(whole)
    assert [len(part) for part in parts] == [3, 3]


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 0)])
def test_a_shard_that_does_not_exist_is_refused(shard: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=r"does not exist|at least 0"):
        open_samples({"x": np.zeros((4, 2), np.float32)}, [SPEC], shard=shard)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        rows(4).spread(0)


def test_samples_are_chosen_by_index_name_and_count() -> None:
    samples = rows(9)
    assert values(samples.subset([7, 1])) == [1, 7]
    assert values(samples.subset(lambda name: name.endswith(("[2]", "[5]")))) == [2, 5]
    assert values(samples.first(3)) == [0, 1, 2]
    assert values(samples.subset(range(4, 9)).spread(2)) == [4, 6]


def test_samples_can_be_opened_again_with_a_limit() -> None:
    samples = rows(9)
    assert values(open_samples(samples, [SPEC], limit=3)) == [0, 3, 6]
    assert open_samples(samples, [SPEC]) is samples


def test_samples_of_files_can_be_sent_to_another_process(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.arange(8, dtype=np.float32).reshape(4, 2))
    samples = open_samples(tmp_path / "d.npz", [SPEC], shard=(1, 2))
    assert values(pickle.loads(pickle.dumps(samples))) == values(samples) == [2, 6]
