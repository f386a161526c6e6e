"""Which samples statistics count: every mistake of a merge is one line, and shards add up to the whole.

The oracle is the set of positions that a shard takes.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptq.core.errors import StatsError
from ptq.observers.calibration_file import Calibration, from_bytes
from ptq.observers.sample_identity import SampleIdentity
from ptq.observers.sample_listing import CountedListing, add_listings, count_shard

LISTING = "ab" * 32
MAKER = {"ptq": "1", "onnxruntime": "1", "numpy": "1", "machine": "x86_64", "features": ["avx2"]}


CONTENTS = tuple(b"cont%04d" % k for k in range(100))


def identity(shard: tuple[int, int] = (0, 1), total: int = 12, **changes: object) -> SampleIdentity:
    members = tuple(bytes([position]) * 8 for position in range(total)[shard[0] :: shard[1]])
    listing = count_shard(LISTING, total, shard)
    return replace(SampleIdentity((listing,), "01" * 32, members, (MAKER,)), **changes)


@given(st.integers(1, 40), st.lists(st.integers(1, 8), min_size=1, max_size=3), st.randoms())
def test_shards_of_shards_add_up_to_the_whole_in_any_order(total, counts, random) -> None:
    shards = [(0, 1)]
    for count in counts:
        split = random.randrange(len(shards))
        index, stride = shards.pop(split)
        shards += [(index + k * stride, stride * count) for k in range(count)]
    random.shuffle(shards)
    found: tuple[CountedListing, ...] = ()
    for shard in shards:
        found = add_listings(found, [count_shard(LISTING, total, shard)])
    assert found == (count_shard(LISTING, total, (0, 1)),)
    assert found[0].list_missing() == []


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 5), st.just(6)), max_size=4))
def test_the_counts_are_those_of_the_positions(total, shards) -> None:
    found = CountedListing(LISTING, total, (0,))
    for shard in shards:
        found = found.add(count_shard(LISTING, total, shard))
    expected = [sum(p % n == k for k, n in shards) for p in range(total)]
    assert [found.counts[p % len(found.counts)] for p in range(total)] == expected


def test_what_is_stored_is_read() -> None:
    one = identity((1, 3))
    assert SampleIdentity.from_text(one.to_text(), one.members) == one
    stored = Calibration("g", 4, {}, identity=one)
    assert from_bytes(stored.to_bytes(), "x") == stored


@pytest.mark.parametrize(
    "damaged",
    [
        '{"digest": "zz", "listings": [], "made_by": []}',
        '{"digest": "00", "listings": [{"digest": "a", "total": -1, "counts": [1]}], "made_by": []}',
        '{"digest": "00", "listings": [{"digest": "a", "total": 1, "counts": []}], "made_by": []}',
        '{"digest": "00", "listings": [{"digest": "a", "total": 1, "counts": [0.5]}], "made_by": []}',
        '{"digest": "00", "listings": [], "made_by": [3]}',
        "{}",
        "[]",
    ],
)
def test_a_damaged_identity_is_one_line(damaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SampleIdentity, "to_text", lambda _: damaged)
    content = Calibration("g", 4, {}, identity=identity()).to_bytes()
    with pytest.raises(StatsError, match=r"^s\.npz: not a file of calibration statistics"):
        from_bytes(content, "s.npz")


def test_a_shard_that_is_counted_twice_is_named() -> None:
    one, again = identity((1, 3)), identity((1, 3))
    with pytest.raises(StatsError, match=r"^shard 1/3 would be counted twice: name and content"):
        one.require_other_samples(again, None, None)
    with pytest.raises(StatsError, match=r"^shard 1/6 would be counted twice"):
        one.require_other_samples(identity((1, 2), members=one.members[:2]), None, None)
    with pytest.raises(StatsError, match=r"^all samples would be counted twice"):
        identity().require_other_samples(identity(), None, None)


def test_a_shard_of_rows_that_is_counted_twice_is_found_by_contents() -> None:
    one = identity((1, 3), members=())
    with pytest.raises(StatsError, match=r"^shard 1/3 would be counted twice: contents"):
        one.require_other_samples(one, CONTENTS, CONTENTS)


def test_a_shard_of_one_row_that_is_counted_twice_is_found_too() -> None:
    one, content = identity((1, 3), members=()), CONTENTS[:1]
    with pytest.raises(StatsError, match=r"^shard 1/3 would be counted twice: contents"):
        one.require_other_samples(one, content, content)


def test_a_huge_number_of_shards_takes_no_memory() -> None:
    assert count_shard("ab" * 32, 5, (3, 10**12)).counts == (0, 0, 0, 1, 0)


def test_equal_rows_in_different_shards_are_not_counted_twice() -> None:
    one, other = identity((1, 3), members=()), identity((2, 3), members=())
    one.require_other_samples(other, CONTENTS, CONTENTS)


def test_samples_of_another_listing_that_are_counted_twice_are_counted_in_the_message() -> None:
    other = identity(listings=(count_shard("cd" * 32, 20, (0, 1)),), members=identity().members[:2])
    with pytest.raises(StatsError, match=r"^2 samples would be counted twice"):
        identity().require_other_samples(other, None, None)


def test_rows_of_two_files_have_the_same_names_and_are_not_the_same_samples() -> None:
    one, other = identity(), identity(members=(b"otherrow",))
    one.require_other_samples(other, CONTENTS, None)
    both = one.merge(other)
    assert both.listings[0].counts == (2,)
    assert both.list_missing() == []


def test_a_renamed_copy_of_the_samples_is_counted_twice() -> None:
    other = identity(listings=(count_shard("cd" * 32, 20, (0, 1)),), members=(b"othernam",))
    with pytest.raises(StatsError, match=r"^samples would be counted twice: contents"):
        identity().require_other_samples(other, CONTENTS, CONTENTS[:40])
    strangers = tuple(b"other%03d" % k for k in range(100))
    for few in (CONTENTS[:1], (*CONTENTS[:4], *strangers), None):  # equal images occur in real data
        identity().require_other_samples(other, CONTENTS, few)


def test_another_kind_of_processor_is_refused_unless_allowed() -> None:
    arm = {**MAKER, "machine": "aarch64", "features": ["asimd", "i8mm"]}
    one = Calibration("g", 1, {}, identity=identity((0, 2)))
    other = Calibration("g", 1, {}, identity=identity((1, 2), made_by=(arm,)))
    with pytest.raises(StatsError, match="aarch64 with asimd i8mm; x86_64 with avx2") as caught:
        one.merge(other)
    assert "\n" not in str(caught.value)
    merged = one.merge(other, allow_mixed_processors=True).identity
    assert merged == other.merge(one, allow_mixed_processors=True).identity
    assert merged is not None
    assert merged.processors == ("aarch64 with asimd i8mm", "x86_64 with avx2")


def test_another_version_merges_and_is_recorded() -> None:
    newer = {**MAKER, "onnxruntime": "2"}
    both = identity((0, 2)).merge(identity((1, 2), made_by=(newer,)))
    assert [made["onnxruntime"] for made in both.made_by] == ["1", "2"]


def test_statistics_without_identity_merge_to_statistics_without_identity() -> None:
    old = Calibration("g", 1, {})
    assert old.merge(Calibration("g", 1, {}, identity=identity())).identity is None


@pytest.mark.parametrize("seed", range(20))
def test_shards_of_two_data_sets_of_rows_add_up_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {"aa" * 32: rng.choice([1, 2, 3]), "bb" * 32: rng.choice([1, 2])}
    shards = [
        count_shard("cd" * 32, 12, (k, size), first)
        for first, size in sizes.items()
        for k in range(size)
    ]
    if seed % 2:
        del shards[rng.randrange(len(shards))]
    expected = reduce(add_listings, [(each,) for each in shards])
    groups = [(each,) for each in rng.sample(shards, len(shards))]
    while len(groups) > 1:
        at = rng.randrange(len(groups) - 1)
        groups[at : at + 2] = [add_listings(groups[at], groups[at + 1])]
    assert groups[0] == expected
