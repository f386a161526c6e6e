"""Feeds from callables and lists, against what they yield."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError, UsageError
from ptq.data import InputSpec, open_samples, split_holdout

SPEC = InputSpec("x", np.dtype(np.float32), (None, 4))


def feed(value: int) -> dict[str, Any]:
    return {"x": np.full((1, 4), value, np.float32)}


def endless() -> Iterator[dict[str, Any]]:
    yield from map(feed, itertools.count())


def test_a_callable_is_run_anew_for_each_pass() -> None:
    samples = open_samples(lambda: (feed(k) for k in range(6)), [SPEC])
    for _ in range(2):
        assert [int(s.feed["x"][0, 0]) for s in samples] == list(range(6))
    assert len(samples) == 6
    assert samples.names[2].endswith("[2]")


def test_pairs_of_feed_and_label_are_labelled() -> None:
    pairs = [
        (feed(0), 3),
        (feed(1), [1, 2]),
        (feed(2), -1),
        (feed(3), None),
        (feed(4), np.int64(5)),
    ]
    samples = open_samples(pairs, [SPEC])
    assert [s.labels for s in samples] == [(3,), (1, 2), (), (), (5,)]
    assert samples.highest_label == -1  # nothing was read for it


def test_labels_in_the_feed_are_labels() -> None:
    (sample,) = open_samples([{**feed(0), "labels": 3}], [SPEC])
    assert sample.labels == (3,)
    assert list(sample.feed) == ["x"]


def test_an_array_alone_feeds_the_only_input() -> None:
    (sample,) = open_samples([feed(7)["x"]], [SPEC])
    np.testing.assert_array_equal(sample.feed["x"], feed(7)["x"])


def test_an_endless_callable_is_cut_by_the_limit() -> None:
    samples = open_samples(endless, [SPEC], limit=3)
    assert len(samples) == 3
    assert [int(s.feed["x"][0, 0]) for s in samples] == [0, 1, 2]


def sorted_by_class() -> list[tuple[dict[str, Any], int]]:
    return [(feed(k), k // 10) for k in range(40)]


def test_a_limit_spreads_over_lists_in_memory() -> None:
    for data in (sorted_by_class(), tuple(sorted_by_class()), sorted_by_class):
        samples = open_samples(data, [SPEC], limit=8)
        assert [s.labels[0] for s in samples] == [0, 0, 1, 1, 2, 2, 3, 3]
        assert samples.labelling.notes == ()


def test_a_limit_spreads_over_the_rows_of_batches() -> None:
    rows = np.arange(48, dtype=np.float32).reshape(12, 4)
    batches = [(rows[:5], range(5)), (rows[5:], range(5, 12))]
    for data in (batches, lambda: batches):
        samples = open_samples(data, [SPEC], limit=4)
        assert [s.labels for s in samples] == [(0,), (3,), (6,), (9,)]
        assert [s.feed["x"][0, 0] for s in samples] == [0, 12, 24, 36]


def test_a_limit_of_a_generator_takes_the_first_ones_and_says_so() -> None:
    def generator() -> Iterator[tuple[dict[str, Any], int]]:
        yield from sorted_by_class()

    samples = open_samples(generator, [SPEC], limit=8)
    assert [s.labels[0] for s in samples] == [0] * 8
    assert "samples 8: the first ones" in str(samples.labelling)
    assert open_samples(generator, [SPEC], limit=41).labelling.notes == ()


def test_a_callable_is_called_once_for_its_first_pass() -> None:
    calls = []

    def loader() -> Iterator[dict[str, Any]]:
        calls.append(1)
        return iter([feed(k) for k in range(3)])

    samples = open_samples(loader, [SPEC])
    assert len(list(samples)) == 3
    assert len(calls) == 1


def test_a_scalar_of_a_callable_is_refused() -> None:
    with pytest.raises(DataError, match="raised TypeError: iteration over a 0-d array"):
        list(open_samples(lambda: np.array(1.0), [SPEC]))


def test_an_unlimited_stream_is_read_without_being_counted() -> None:
    values = (int(s.feed["x"][0, 0]) for s in open_samples(endless, [SPEC]))
    assert list(itertools.islice(values, 4)) == [0, 1, 2, 3]


def test_shards_of_a_stream_are_disjoint_and_whole() -> None:
    parts = [open_samples([feed(k) for k in range(7)], [SPEC], shard=(k, 3)) for k in range(3)]
    values = [[int(s.feed["x"][0, 0]) for s in part] for part in parts]
    assert values == [[0, 3, 6], [1, 4], [2, 5]]


def test_a_shard_without_a_sample_is_refused_with_the_number_of_shards() -> None:
    feeds = [feed(k) for k in range(7)]
    assert len(open_samples(feeds, [SPEC], shard=(6, 9))) == 1
    with pytest.raises(
        DataError, match="shard 7/9 holds none of the 7 samples; make at most 7 shards"
    ):
        open_samples(feeds, [SPEC], shard=(7, 9))


def test_an_empty_stream_is_an_error() -> None:
    with pytest.raises(DataError, match="returns no samples"):
        list(open_samples([], [SPEC]))


@pytest.mark.parametrize("returned", [None, "folder", b"folder", Path("folder"), feed(0)])
def test_a_callable_that_returns_no_items_is_refused(returned: object) -> None:
    kind = type(returned).__name__
    with pytest.raises(DataError, match=f"returns an object of type {kind}; let it return a list"):
        list(open_samples(lambda: returned, [SPEC]))


def test_an_exception_of_the_callable_is_one_line_and_chained() -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield feed(0)
        raise KeyError("two\nlines")

    with pytest.raises(DataError, match=r"^broken: raised KeyError: .*two.*lines") as caught:
        list(open_samples(broken, [SPEC]))
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_feed_that_does_not_fit_is_named_or_skipped() -> None:
    feeds = [feed(0), {"x": np.zeros(5, np.float32)}, "text", {"y": feed(0)["x"]}, feed(4)]
    with pytest.raises(DataError, match=r"data\[1\]: input 'x' has shape \[1, 5\]"):
        list(open_samples(feeds, [SPEC]))
    samples = open_samples(feeds, [SPEC], skip_bad=True)
    assert [s.name for s in samples] == ["data[0]", "data[4]"]
    assert [name for name, _ in samples.skipped] == ["data[1]", "data[2]", "data[3]"]


def test_module_and_callable_are_imported_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    (tmp_path / "my_calibration_feeds.py").write_text(
        "import numpy\n"
        "class Feeds:\n"
        "    @staticmethod\n"
        "    def some():\n"
        "        return [{'x': numpy.ones((1, 4), 'float32')}] * 3\n"
        "number = 3\n"
    )
    samples = open_samples("my_calibration_feeds:Feeds.some", [SPEC])
    assert len(list(samples)) == 3
    assert samples.names[0] == "my_calibration_feeds:Feeds.some[0]"
    with pytest.raises(UsageError, match="AttributeError"):
        open_samples("my_calibration_feeds:gone", [SPEC])
    with pytest.raises(UsageError, match="has type int; give a callable"):
        open_samples("my_calibration_feeds:number", [SPEC])
    with pytest.raises(UsageError, match="ModuleNotFoundError"):
        open_samples("my_calibration_gone:feeds", [SPEC])


def test_data_of_no_known_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="data of type int"):
        open_samples(3, [SPEC])  # type: ignore[arg-type]


@pytest.mark.parametrize("label", ["cat", 1.5, [[1], [2, 3]], [[[1]]], -2])
def test_a_label_that_is_none_is_refused(label: object) -> None:
    with pytest.raises(DataError, match=r"data\[0\]: label"):
        list(open_samples([(feed(0), label)], [SPEC]))


def test_a_stream_is_held_out_like_rows() -> None:
    feeds = [feed(k) for k in range(60)]
    rows = {"x": np.concatenate([f["x"] for f in feeds])}
    parts = [split_holdout(open_samples(source, [SPEC])) for source in (feeds, rows)]
    for stream, table in zip(*parts, strict=True):
        assert [s.feed["x"][0, 0] for s in stream] == [s.feed["x"][0, 0] for s in table]


def test_an_error_of_ptq_inside_a_callable_stays_itself() -> None:
    def nested() -> Iterator[dict[str, Any]]:
        yield from (s.feed for s in open_samples([{"y": 0}], [SPEC]))

    with pytest.raises(DataError, match=r"^data\[0\]: arrays must be named"):
        list(open_samples(nested, [SPEC]))
