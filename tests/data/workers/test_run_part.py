"""What a thread keeps of a run: nothing once the run has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ptq.data import opened_sources
from ptq.data.opened_sources import open_once
from ptq.data.workers import run_part
from ptq.data.workers.job_content import digest_pieces, pack_job


@dataclass(frozen=True)
class EndingJob:
    """A job whose run ends before or after it has opened a source."""

    ends_first: bool

    def open(self) -> Callable[[Any], str]:
        if self.ends_first:
            run_part.forget_run("a run")
        open_once(str)
        if not self.ends_first:
            run_part.forget_run("a run")
        return lambda part: ""


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_part_whose_run_ends_meanwhile_leaves_nothing_open(
    ends_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((run_part, "_opened"), (opened_sources, "_opened")):
        monkeypatch.setattr(module, name, {})
    monkeypatch.setattr(run_part, "_ended", run_part.deque(maxlen=64))
    pieces = pack_job(EndingJob(ends_first))
    job = run_part.SharedJob("a run", 1, digest_pieces(pieces))
    for _ in range(2):  # the second one starts after the end
        assert run_part.run_part(job, (1,), run_part.NO_PART, b"".join(pieces)) is None
        assert run_part._opened == {}
        assert opened_sources._opened == {}
