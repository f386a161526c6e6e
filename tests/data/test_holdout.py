"""Splits by identity; the oracle is the same samples in another order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from ptq.data import Sample, Samples, split_every_fourth, split_folds, spread_with_validation


class Named:
    """A source of empty samples with given names."""

    classes: tuple[str, ...] = ()
    preprocess = None

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def positions(self, at_most: int | None = None) -> range:
        return range(len(self._names))[:at_most]

    def name(self, position: int) -> str:
        return self._names[position]

    identity = name

    def highest_label(self, positions: Sequence[int] | None) -> int:
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample]:
        return (Sample(self.name(p), {}) for p in positions)


NAMES = [f"{number}.png" for number in range(101)]


def samples(order: Sequence[int]) -> Samples:
    return Samples(Named([NAMES[k] for k in order]))


def names(split: tuple[Samples, Samples]) -> tuple[set[str], set[str]]:
    return set(split[0].names), set(split[1].names)


def test_the_split_does_not_depend_on_the_order_of_samples() -> None:
    order = np.random.default_rng(0).permutation(len(NAMES)).tolist()
    plain, shuffled = (names(split_every_fourth(samples(o))) for o in (range(len(NAMES)), order))
    assert plain == shuffled
    training, held_out = plain
    assert len(held_out) == 25
    assert training | held_out == set(NAMES)
    assert not training & held_out


@pytest.mark.parametrize("count", [4, 32, 64, 128, 1000])
def test_a_few_samples_are_split_as_all_are(count: int) -> None:
    whole = names(split_every_fourth(samples(range(len(NAMES)))))
    few = names(spread_with_validation(samples(range(len(NAMES))), count))
    assert few[0] <= whole[0]
    assert few[1] <= whole[1]
    assert sum(map(len, few)) == min(count, len(NAMES))


def test_the_held_out_samples_are_one_of_four_folds() -> None:
    whole = samples(range(len(NAMES)))
    held_out = split_every_fourth(whole)[1]
    assert held_out.names == split_folds(whole, 4)[3].names


@pytest.mark.parametrize(("count", "held_out"), [(0, 0), (1, 0), (3, 0), (4, 1), (32, 8)])
def test_a_fourth_is_rounded_down(count: int, held_out: int) -> None:
    assert len(split_every_fourth(samples(range(count)))[1]) == held_out
