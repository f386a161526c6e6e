"""How a job reports its progress; the calls that were made are the oracle."""

from __future__ import annotations

from collections.abc import Callable

from ptq.core.run_options import RunOptions


def test_a_stage_without_a_listener_is_no_error() -> None:
    heard: list[tuple[str, int | None]] = []

    def progress(stage: str, steps: int | None) -> Callable[[], None]:
        heard.append((stage, steps))
        return lambda: heard.append(("step", None))

    RunOptions(progress=progress).start_stage("s", 3)()
    RunOptions().start_stage("t", None)()
    assert heard == [("s", 3), ("step", None)]


def test_progress_hears_of_every_sample() -> None:
    items, heard = ["a", "b", "c", "d", "e"], list[str]()
    run = RunOptions(progress=lambda stage, total: lambda: heard.append(stage))
    assert list(run.track(items, "s")) == items
    assert heard == ["s"] * 5
    assert RunOptions().track(items, "s") is items
