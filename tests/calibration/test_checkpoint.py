"""Calibrations that are interrupted and go on; the bytes of one that was not are the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks import build_network, random_feeds, to_samples
from parts import CONV, SAME, WB, V

import ptq
from ptq.calibration.calibration import list_tensors_to_collect
from ptq.calibration.checkpoint import Checkpoint
from ptq.calibration.collect import observe
from ptq.core.errors import DataError, PtqError, StatsError, UsageError
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.model.graph import Graph
from ptq.observers.calibration_file import CHECKPOINT_MAGIC, SHARD_CHECKPOINT_MAGIC, Calibration
from ptq.rewrite.prepare.prepare import prepare

MODEL = build_network(
    CONV + f"r = Relu(c)\nd = Conv{SAME}(r, v)\ny = Add(d, r)",
    {"x": ("n", 3, 8, 8)},
    v=V,
    **WB,
)
FEEDS = random_feeds(MODEL, 12)
GRAPH = prepare(Graph.from_proto(MODEL)).graph


class InterruptionError(Exception):
    pass


def observed(these: list[Sample], path: Path | None = None, stop: int | None = None) -> Calibration:
    def until() -> Iterator[Sample]:
        for number, sample in enumerate(these):
            if number == stop:
                raise InterruptionError
            yield sample

    checkpoint = None if path is None else Checkpoint(path, GRAPH.digest(), every=0.0)
    return observe(
        GRAPH,
        until(),
        list_tensors_to_collect(GRAPH),
        run=RunOptions(calibration_batch=2, threads=1),
        checkpoint=checkpoint,
    )


ALL = to_samples(FEEDS)
WHOLE = observed(ALL).to_bytes()


@pytest.mark.parametrize("stop", [1, 2, 5, 10])
def test_an_interrupted_calibration_goes_on_to_the_same_bytes(tmp_path: Path, stop: int) -> None:
    path = tmp_path / "state"
    with pytest.raises(InterruptionError):
        observed(ALL, path, stop)
    assert path.exists()
    with pytest.raises(InterruptionError):
        observed(ALL, path, stop + 1)
    assert observed(ALL, path).to_bytes() == WHOLE
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_samples_that_were_counted_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed(ALL, tmp_path / "state")
    monkeypatch.setattr("ptq.model.session.session.Session.run", None)
    monkeypatch.setattr("ptq.model.session.session.Session.run_into", None)
    assert observed(ALL, tmp_path / "state").to_bytes() == WHOLE


def test_more_samples_may_follow_those_that_were_counted(tmp_path: Path) -> None:
    observed(ALL[:5], tmp_path / "state")
    assert observed(ALL, tmp_path / "state").to_bytes() == WHOLE


def changed(sample: Sample) -> Sample:
    array = sample.feed["x"].copy()
    array.flat[7] += 1
    return Sample(sample.name, {"x": array})


@pytest.mark.parametrize(
    "others",
    [
        ALL[:3],
        ALL[::-1],
        [*ALL[:3], changed(ALL[3]), *ALL[4:]],
        [Sample(f"other/{s.name}", s.feed) for s in ALL],
        [Sample(s.name, {"x": s.feed["x"].astype(np.float64)}) for s in ALL],
    ],
    ids=["fewer", "order", "one value", "names", "type"],
)
def test_other_samples_are_refused(tmp_path: Path, others: list[Sample]) -> None:
    path = tmp_path / "state"
    observed(ALL[:6], path)
    before = path.read_bytes()
    with pytest.raises(StatsError, match="other samples or other preprocessing") as caught:
        observed(others, path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    observed(ALL, path)
    other = build_network("y = Relu(x)", {"x": ("n", 3, 8, 8)})
    with pytest.raises(StatsError, match="belongs to another model; name another file"):
        ptq.calibrate(other, FEEDS, checkpoint=path)


@pytest.mark.parametrize("cut", [0, 10, 85, 600])
def test_a_damaged_checkpoint_is_one_line_that_names_it(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "state"
    observed(ALL, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(StatsError, match="state: ") as caught:
        observed(ALL, path)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    with pytest.raises(StatsError, match="is not a checkpoint of ptq; name another file"):
        ptq.calibrate(MODEL, FEEDS, checkpoint=path)
    assert path.read_text() == "precious"
    path.write_bytes(SHARD_CHECKPOINT_MAGIC + b"3\n")
    with pytest.raises(StatsError, match="is a checkpoint of workers; continue with workers, or"):
        ptq.calibrate(MODEL, FEEDS, checkpoint=path)


def test_a_checkpoint_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PtqError, match="cannot be written"):
        ptq.calibrate(MODEL, FEEDS, checkpoint=tmp_path / "none" / "state")


def test_quantize_goes_on_from_what_calibrate_left(tmp_path: Path) -> None:
    path = tmp_path / "state"
    ptq.calibrate(MODEL, FEEDS, checkpoint=path)
    again = ptq.quantize(MODEL, FEEDS, checkpoint=path)
    assert again.graph.to_bytes() == ptq.quantize(MODEL, FEEDS).graph.to_bytes()


def test_a_checkpoint_without_calibration_is_a_mistake(tmp_path: Path) -> None:
    stats = ptq.calibrate(MODEL, FEEDS)
    with pytest.raises(UsageError, match="checkpoint"):
        ptq.quantize(MODEL, FEEDS, stats=stats, checkpoint=tmp_path / "state")


def test_a_bad_sample_stops_a_calibration_that_then_goes_on(tmp_path: Path) -> None:
    for number, feed in enumerate(FEEDS):
        np.savez(tmp_path / f"{number:02}.npz", **feed)
    good = (tmp_path / "09.npz").read_bytes()
    (tmp_path / "09.npz").write_bytes(good[:100])
    path = tmp_path.parent / f"{tmp_path.name}.state"
    with pytest.raises(DataError, match=r"09\.npz"):
        ptq.calibrate(MODEL, tmp_path, checkpoint=path)
    (tmp_path / "09.npz").write_bytes(good)
    resumed = ptq.calibrate(MODEL, tmp_path, checkpoint=path)
    assert replace(resumed, preprocess=None, contents=None, identity=None).to_bytes() == WHOLE
    assert resumed.to_bytes() == ptq.calibrate(MODEL, tmp_path).to_bytes()


@pytest.mark.parametrize("number", [b"0" * 64 + b"\n", b"2\n"])
def test_a_checkpoint_is_no_statistics(tmp_path: Path, number: bytes) -> None:
    path, magic = (
        tmp_path / "state",
        CHECKPOINT_MAGIC if len(number) > 2 else SHARD_CHECKPOINT_MAGIC,
    )
    path.write_bytes(magic + number + WHOLE)
    for read in (Calibration.load, ptq.merge_statistics):
        with pytest.raises(
            StatsError, match="state: is the checkpoint of a calibration that has not ended"
        ):
            read(path)
    with pytest.raises(StatsError, match="run it to its end"):
        ptq.quantize(MODEL, stats=path)


def test_statistics_without_names_hide_no_missing_shard() -> None:
    first, other = (ptq.calibrate(MODEL, FEEDS, shard=(k, 3), threads=1) for k in (0, 2))
    nameless = replace(ptq.calibrate(MODEL, FEEDS, shard=(1, 3), threads=1), identity=None)
    with pytest.raises(StatsError, match="shard 1/3 of the samples is missing"):
        ptq.merge_statistics([first, nameless, other])
    with pytest.raises(StatsError, match="counted twice"):
        ptq.merge_statistics([first, nameless, first], allow_missing_shards=True)
    merged = ptq.merge_statistics([first, nameless, other], allow_missing_shards=True)
    assert (merged.samples, merged.identity) == (len(FEEDS), None)


def test_one_calibration_is_merged_with_nothing(tmp_path: Path) -> None:
    one = ptq.calibrate(MODEL, FEEDS, threads=1)
    one.save(tmp_path / "s.npz")
    for given in (one, tmp_path / "s.npz", str(tmp_path / "s.npz")):
        assert ptq.merge_statistics(given).to_bytes() == one.to_bytes()
    with pytest.raises(UsageError, match="statistics of type int are no statistics"):
        ptq.merge_statistics(3)  # type: ignore[call-overload,arg-type]
