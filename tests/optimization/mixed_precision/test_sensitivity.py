"""Nodes by what leaving them float would win; the oracle is a network whose hard nodes are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hard import READERS, SAMPLE_DATA, WRITERS, hard_model

import ptq
from ptq.data import Preprocess

Stages = list[tuple[str, int | None]]


@pytest.fixture(scope="module")
def stages() -> Stages:
    """Stages, and a stage again after each of its steps."""
    return []


@pytest.fixture(scope="module")
def ranking(stages: Stages) -> ptq.Ranking:
    def progress(stage: str, steps: int | None) -> Callable[[], None]:
        stages.append((stage, steps))
        return lambda: stages.append((stage, -1))

    folder = SAMPLE_DATA / "images"
    return ptq.sensitivity(
        hard_model(),
        folder / "calibration",
        eval_data=folder / "evaluation",
        preprocess=Preprocess(mean=(0.286,), std=(0.353,)),
        samples=40,
        measure=3,
        threads=1,
        equalize=False,  # which would cure it
        progress=progress,
    )


def test_the_hard_nodes_stand_first(ranking: ptq.Ranking) -> None:
    first = {n for cost in ranking.nodes[:3] for n in (cost.node, *cost.along)}
    assert {name for name in first if name.endswith("Conv")} == {*WRITERS, *READERS}


def test_together_they_win_all_that_is_lost(ranking: ptq.Ranking) -> None:
    assert ranking.sqnr_db < 15
    won = ranking.nodes[2].together_db
    assert won is not None
    assert won > 15


def test_what_is_measured_and_what_is_estimated_is_said(ranking: ptq.Ranking) -> None:
    measured = [cost.measured_db is not None for cost in ranking.nodes]
    assert measured == [True] * 3 + [False] * (len(measured) - 3)
    assert ranking.measurements == 1 + 3 + 2
    assert ranking.runs + ranking.measurements < ranking.sources


def test_progress_covers_every_run_of_attribution_and_measurement(
    ranking: ptq.Ranking, stages: Stages
) -> None:
    assert ("attributing the error", None) in stages
    assert ("measuring", 3) in stages
    assert stages.count(("attributing the error", -1)) % ranking.estimated_on == 0
    assert stages.count(("measuring", -1)) == 3
