"""Identity by content: hashlib over the documented bytes, and what must or must not change a digest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ptq.data import InputSpec, Samples, open_samples
from ptq.data.sample_digest import combine_digests, digest_feed, merge_digests

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
IMAGE = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))
ROW = InputSpec("x", np.dtype(np.float32), (None, 4))


def test_the_order_of_the_inputs_does_not_matter() -> None:
    assert digest_feed({"a": ARRAY, "b": ARRAY + 1}) == digest_feed({"b": ARRAY + 1, "a": ARRAY})


@pytest.mark.parametrize(
    "other",
    [
        {"b": ARRAY},
        {"a": ARRAY.astype(np.float64)},
        {"a": ARRAY.reshape(4, 3)},
        {"a": np.nextafter(ARRAY, np.float32(99))},
        {"a": ARRAY, "b": ARRAY},
        {"a": ARRAY.view(np.int32)},
    ],
    ids=["name", "type", "shape", "values", "inputs", "same bytes, other type"],
)
def test_every_part_of_a_feed_counts(other: dict[str, np.ndarray]) -> None:
    assert digest_feed(other) != digest_feed({"a": ARRAY})


def test_the_layout_in_memory_does_not_count() -> None:
    expected = digest_feed({"a": ARRAY})
    assert digest_feed({"a": np.asfortranarray(ARRAY)}) == expected
    assert digest_feed({"a": np.repeat(ARRAY, 2, axis=1)[:, ::2]}) == expected


def test_scalars_empty_arrays_and_flags_have_digests() -> None:
    feeds = [
        {"a": np.float32(1)[()].reshape(())},
        {"a": np.zeros((0, 3), np.float32)},
        {"a": np.array([True])},
    ]
    assert len({digest_feed(feed) for feed in feeds}) == len(feeds)


def test_a_set_has_one_digest_in_any_order_and_counts_repeats() -> None:
    one, two, three = (digest_feed({"a": ARRAY + k}) for k in range(3))
    assert combine_digests([one, two, three]) == combine_digests([three, one, two])
    assert combine_digests([one, two]) != combine_digests([one, two, two])
    assert merge_digests(combine_digests([one]), combine_digests([two, three])) == combine_digests(
        [one, two, three]
    )
    assert len(combine_digests([])) == 64


def rows(values: np.ndarray) -> Samples:
    return open_samples({"x": values}, [ROW])


def test_samples_know_the_content_that_was_read() -> None:
    samples = rows(ARRAY)
    assert samples.digests == {}
    first = next(iter(samples))
    assert samples.digests == {0: first.digest}
    list(samples)
    assert samples.digest == rows_read(ARRAY[::-1]).digest
    assert samples.subset([1]).digest == rows_read(ARRAY[1:2]).digest


def rows_read(values: np.ndarray) -> Samples:
    samples = rows(values)
    assert len(list(samples)) == len(values)
    return samples


def test_a_copy_of_an_image_in_another_format_is_the_same_sample(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), np.uint8)
    for name in ("a/1.png", "b/renamed.bmp"):
        (tmp_path / name).parent.mkdir()
        Image.fromarray(pixels).save(tmp_path / name)
    one, other = (open_samples(tmp_path / folder, [IMAGE]) for folder in "ab")
    assert len(list(one)) == len(list(other)) == 1
    assert one.digest == other.digest
