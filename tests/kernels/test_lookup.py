"""Tables against the functions that they tabulate, at every integer."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.kernels.lookup import lookup, lookup_pairs, tabulate, tabulate_pairs
from ptq.types import INT8, UINT8, QType

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
    table = tabulate_pairs(lambda x, y: 1000 * x + y, first, second)
    expected = 1000 * a.astype(np.int64) + b.astype(np.int64)
    np.testing.assert_array_equal(lookup_pairs(table, a, b), expected)


def test_an_array_that_is_not_contiguous_is_looked_up_in_its_own_order() -> None:
    q = np.arange(24, dtype=np.int8).reshape(4, 6).T[::2] - 9
    table = tabulate(lambda x: -x, INT8)
    np.testing.assert_array_equal(lookup(table, q), -q.astype(np.int64))
