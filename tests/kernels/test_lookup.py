"""Tables against the functions that they tabulate, at every integer."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.core.types import INT8, UINT8, QType
from ptq.kernels.lookup import PAIR_COUNT, PairTable, lookup, tabulate

TYPES = [INT8, UINT8]


@pytest.mark.parametrize("qtype", TYPES, ids=lambda q: q.name)
def test_a_table_gives_the_functions_value_at_every_integer(qtype: QType) -> None:
    q = np.arange(qtype.lo, qtype.hi + 1).astype(qtype.dtype)
    table = tabulate(lambda x: 3 * x + 1, qtype)
    np.testing.assert_array_equal(lookup(table, q), 3 * q.astype(np.int64) + 1)


@pytest.mark.parametrize("first", TYPES, ids=lambda q: q.name)
@pytest.mark.parametrize("second", TYPES, ids=lambda q: q.name)
def test_a_pair_table_gives_the_functions_value_at_every_pair(first: QType, second: QType) -> None:
    a = np.arange(first.lo, first.hi + 1).astype(first.dtype)[:, None]
    b = np.arange(second.lo, second.hi + 1).astype(second.dtype)
    table = PairTable(lambda x, y: 1000 * x + y, first, second)
    expected = 1000 * a.astype(np.int64) + b.astype(np.int64)
    assert expected.size == PAIR_COUNT
    np.testing.assert_array_equal(table(a, b), expected)
    np.testing.assert_array_equal(table(a[:3], b), expected[:3])


@pytest.mark.parametrize("shape", [(), (0, 4), (1,), (3, 1), (2, 3, 4)])
def test_few_pairs_are_computed_as_the_table_would_give_them(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-128, 128, shape).astype(np.int8)
    b = rng.integers(0, 256, 4).astype(np.uint8)
    few = PairTable(lambda x, y: np.float32(0.1) * x + y, INT8, UINT8)
    many = PairTable(lambda x, y: np.float32(0.1) * x + y, INT8, UINT8)
    many(np.zeros(PAIR_COUNT, np.int8), np.zeros(1, np.uint8))
    for pair in [(a, b), (b.view(np.int8), b), (a, np.uint8(7).reshape(()))]:
        np.testing.assert_array_equal(few(*pair), many(*pair), strict=True)


def test_an_array_that_is_not_contiguous_is_looked_up_in_its_own_order() -> None:
    q = np.arange(24, dtype=np.int8).reshape(4, 6).T[::2] - 9
    table = tabulate(lambda x: -x, INT8)
    np.testing.assert_array_equal(lookup(table, q), -q.astype(np.int64))
