"""``ptq calibrate --merge`` refuses what would count samples twice, leave some out or mix others, in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ptq as library
from ptq.core.errors import StatsError, UsageError
from ptq.observers.calibration_file import Calibration, load


@pytest.fixture
def shards(ptq, model, data) -> list[str]:
    """Statistics of three shards."""
    names = [f"{k}.npz" for k in range(3)]
    for k, name in enumerate(names):
        assert ptq("calibrate", model, "--data", data, "--shard", f"{k}/3", "-o", name).code == 0
    return names


def merge(*names: str) -> list[str]:
    return [word for name in names for word in ("--merge", name)]


def test_a_shard_that_is_counted_twice_is_refused(ptq, model, shards) -> None:
    result = ptq("calibrate", model, *merge("0.npz", "1.npz", "2.npz", "1.npz"), "-o", "m.npz")
    assert result.code == 1
    assert result.line.startswith(
        "error: 1.npz: shard 1/3 would be counted twice: contents are in both statistics"
    )
    assert not Path("m.npz").exists()


def test_a_new_run_over_counted_samples_is_refused_before_it_starts(
    ptq, model, data, shards, monkeypatch
) -> None:
    monkeypatch.setattr("ptq.api.calibrate.calibrate", None)
    shard = ["--data", data, "--shard", "0/3"]
    result = ptq("calibrate", model, *shard, *merge("0.npz"), "-o", "m.npz")
    assert result.code == 1
    assert "error: 0.npz: shard 0/3 would be counted twice" in result.line


def test_samples_of_an_overlapping_selection_are_refused(ptq, model, data, shards) -> None:
    assert ptq("calibrate", model, "--data", data, "--samples", "4", "-o", "few.npz").code == 0
    result = ptq("calibrate", model, *merge("0.npz", "few.npz"), "-o", "m.npz")
    assert result.code == 1
    assert "would be counted twice: contents are in both statistics" in result.line


def test_a_renamed_copy_of_the_samples_is_refused(ptq, model, data) -> None:
    x = np.load(data)["x"]
    for folder, first in (("a", 0), ("b", 100)):
        Path(folder).mkdir()
        for number, row in enumerate(x[:4], first):
            np.savez(f"{folder}/{number}.npz", x=row[None])
        assert ptq("calibrate", model, "--data", folder, "-o", f"{folder}.stats").code == 0
    result = ptq("calibrate", model, *merge("a.stats", "b.stats"), "-o", "m.npz")
    assert result.code == 1
    assert "error: b.stats: samples would be counted twice: contents are in both" in result.line


def test_files_of_an_overlapping_selection_are_refused(ptq, model, data) -> None:
    Path("a").mkdir()
    for number, row in enumerate(np.load(data)["x"]):
        np.savez(f"a/{number:02}.npz", x=row[None])
    half = ["--data", "a", "--shard", "0/2", "-o", "half.npz"]
    assert ptq("calibrate", model, *half).code == 0
    assert ptq("calibrate", model, "--data", "a", "--samples", "1", "-o", "few.npz").code == 0
    result = ptq("calibrate", model, *merge("half.npz", "few.npz"), "-o", "m.npz")
    assert result.code == 1
    assert "1 sample would be counted twice: name and content are in both" in result.line


def test_a_missing_shard_is_refused_unless_allowed(ptq, model, shards) -> None:
    result = ptq("calibrate", model, *merge("0.npz", "2.npz"), "-o", "m.npz")
    assert result.code == 1
    assert result.line == (
        "error: shard 1/3 of the samples is missing; merge all shards, or set --allow-missing-shards "
        "(ptq explain refused-data)"
    )
    allowed = [*merge("0.npz", "2.npz"), "--allow-missing-shards", "-o", "m.npz"]
    result = ptq("calibrate", model, *allowed)
    assert result.code == 0
    assert "Not counted: shard 1/3 of the samples." in result.out
    document = json.loads(ptq("calibrate", model, *allowed, "--json", "-").out)
    assert document["missing_shards"] == ["1/3"]
    assert len(document["processors"]) == 1


def test_shards_may_be_added_one_after_the_other(ptq, model, data, shards) -> None:
    assert ptq("calibrate", model, "--data", data, "-o", "whole.npz").code == 0
    last = "0.npz"
    for k in (1, 2):
        shard = ["--data", data, "--shard", f"{k}/3", "--merge", last, "-o", f"to{k}.npz"]
        assert ptq("calibrate", model, *shard).code == 0
        last = f"to{k}.npz"
    assert Path(last).read_bytes() == Path("whole.npz").read_bytes()


def test_another_model_is_refused(ptq, model, shards) -> None:
    other = replace(load(Path("0.npz")), graph="sha256:00")
    other.save("other.npz")
    result = ptq("calibrate", model, *merge("other.npz"), "-o", "m.npz")
    assert result.code == 1
    assert "these statistics belong to another graph" in result.line


def test_another_kind_of_processor_is_refused_unless_allowed(ptq, model, shards) -> None:
    own = load(Path("1.npz"))
    made = {**own.identity.made_by[0], "machine": "other", "features": []}
    replace(own, identity=replace(own.identity, made_by=(made,))).save("1.npz")
    result = ptq("calibrate", model, *merge(*shards), "-o", "m.npz")
    assert result.code == 1
    assert "error: 1.npz: the statistics are of different kinds of processor" in result.line
    allowed = ptq("calibrate", model, *merge(*shards), "--allow-mixed-processors", "-o", "m.npz")
    assert allowed.code == 0
    assert "Made on different kinds of processor: " in " ".join(allowed.out.split())


def test_older_statistics_merge_and_are_named(ptq, model, shards) -> None:
    replace(load(Path("1.npz")), identity=None, contents=None).save("1.npz")
    some = merge("0.npz", "1.npz")
    refused = ptq("calibrate", model, *some, "-o", "m.npz")
    assert (refused.code, "or in older statistics, which name no samples" in refused.line) == (
        1,
        True,
    )
    result = ptq("calibrate", model, *some, "--allow-missing-shards", "-o", "m.npz")
    assert result.code == 0
    assert "older statistics do not record it" in " ".join(result.out.split())
    assert load(Path("m.npz")).samples == 16


def test_shards_that_keep_no_samples_are_counted(ptq, model, data, shards) -> None:
    keeping = ["--data", data, "--shard", "1/3", "--keep-samples", "5", "-o", "1.npz"]
    assert "None is kept" not in ptq("calibrate", model, *keeping).out
    first = [*merge("0.npz", "1.npz"), "--allow-missing-shards", "-o", "first.npz"]
    assert "None is kept of 8 samples" in " ".join(ptq("calibrate", model, *first).out.split())
    whole = ptq("calibrate", model, *merge("first.npz", "2.npz"), "-o", "m.npz")
    assert "None is kept of 16 samples" in " ".join(whole.out.split())


def test_statistics_hold_no_path(ptq, model, data, shards) -> None:
    content = Path("0.npz").read_bytes()
    for part in (*Path(data).resolve().parts[1:], "data.npz"):
        assert part.encode() not in content


def test_python_merges_files_and_statistics_alike(ptq, model, data, shards) -> None:
    whole = library.calibrate(model, data)
    merged = library.merge_statistics(["2.npz", Calibration.load("0.npz"), Path("1.npz")])
    assert merged.to_bytes() == whole.to_bytes()
    with pytest.raises(StatsError, match="shard 1/3 of the samples is missing"):
        library.merge_statistics(["2.npz", "0.npz"])
    part = library.merge_statistics(["2.npz", "0.npz"], allow_missing_shards=True)
    assert part.samples == 16
    with pytest.raises(StatsError, match=r"^statistics\[1\]: shard 0/3 would be counted twice"):
        library.merge_statistics(["0.npz", Calibration.load("0.npz")])
    with pytest.raises(UsageError, match="no statistics to merge"):
        library.merge_statistics([])


def test_a_shard_of_rows_that_an_older_version_counted_is_of_any_data_set_of_its_length(
    model, data
) -> None:
    whole = library.calibrate(model, data)
    one, other = (library.calibrate(model, data, shard=(k, 2)) for k in range(2))
    assert one.identity is not None
    (listing,) = one.identity.listings
    older = replace(one, identity=replace(one.identity, listings=(replace(listing, first=""),)))
    for halves in ([older, other], [other, older]):
        assert library.merge_statistics(halves).to_bytes() == whole.to_bytes()
    with pytest.raises(StatsError, match="would be counted twice"):
        library.merge_statistics([older, one])


def test_shards_of_two_row_files_of_equal_length_are_not_one_data_set(model, data) -> None:
    rows = np.load(data)
    other = {**rows, "x": rows["x"] * 0.5}
    halves = [library.calibrate(model, some, shard=(k, 2)) for k, some in enumerate((data, other))]
    with pytest.raises(StatsError, match=r"of 2 data sets \(.*\) are missing"):
        library.merge_statistics(halves)
