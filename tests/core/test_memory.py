"""What Python searches for garbage while a verb runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ptq.core.memory import search_new_objects_only


@pytest.fixture(autouse=True)
def _nothing_left_out() -> Iterator[None]:
    was = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if was:
        gc.freeze()


def test_what_exists_before_a_verb_is_not_searched_until_it_ends() -> None:
    @search_new_objects_only
    def count(fails: bool) -> int:
        made = [[number] for number in range(100)]
        if fails:
            raise ValueError(f"{len(made)} lists")
        return gc.get_freeze_count()

    assert gc.get_freeze_count() == 0
    assert count(False) > 1000
    assert gc.get_freeze_count() == 0
    with pytest.raises(ValueError, match="100 lists"):
        count(True)
    assert gc.get_freeze_count() == 0


def test_a_process_that_leaves_its_objects_out_itself_stays_so() -> None:
    @search_new_objects_only
    def run() -> None:
        pass

    gc.freeze()
    try:
        run()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
