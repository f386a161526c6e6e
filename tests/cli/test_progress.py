"""Progress on standard error; the clock is the test's own, and real jobs say what happens."""

from __future__ import annotations

import io
import threading

import numpy as np
import onnx.parser
import pytest
from ptq_cli.progress import progress_lines
from ptq_cli.progress import show_progress as progress
from ptq_cli.progress.progress_lines import ProgressLines
from ptq_cli.progress.progress_state import ProgressState, Snapshot
from rich.console import Console
from rich.progress import Progress

import ptq
from ptq.core.run_options import ExpectedStage

PLAN = [ExpectedStage("calibrating", 100), ExpectedStage("evaluating", 300)]


class Job:
    """A job of a test: its clock, and the lines that it wrote."""

    def __init__(self) -> None:
        self.now, self.lines = 0.0, list[str]()
        self._lines = ProgressLines(self.lines.append)
        self.state = ProgressState(self._lines.observe, lambda: self.now)

    def wait(self, seconds: float) -> None:
        """Let time pass as the watching thread sees it, second by second."""
        for _ in range(int(seconds)):
            self.now += 1
            self._lines.observe(self.state.snapshot())


def test_a_short_job_writes_no_line():
    job = Job()
    job.state.expect(PLAN)
    advance = job.state("calibrating", 20)
    for _ in range(20):
        job.now += 1
        advance()
    job.state("evaluating", 100)
    job.wait(9)
    assert job.lines == []


def test_a_long_job_writes_a_line_a_stage_and_a_heartbeat_every_30_seconds():
    job = Job()
    job.state.expect(PLAN)
    job.wait(2)
    advance = job.state("calibrating", 20)
    for _ in range(10):
        job.wait(2)
        advance()
    job.wait(8)
    assert job.lines == [
        "00:02 calibrating",
        "00:30 calibrating 10/20, 0.4/s; 12 %, about 03:30 left",
    ]
    job.wait(29)
    assert len(job.lines) == 2
    job.wait(1)
    assert job.lines[2:] == ["01:00 calibrating 10/20, 0.2/s; 12 %, about 07:00 left"]
    job.wait(5)
    job.state("evaluating", 100)
    assert job.lines[3:] == ["01:05 evaluating"]
    job.wait(29)
    assert len(job.lines) == 4
    job.wait(1)
    assert job.lines[4:] == ["01:35 evaluating 0/100; 25 %, about 04:45 left"]


def test_after_the_last_step_of_a_stage_there_is_no_rate():
    job = Job()
    advance = job.state("rounding", 1)
    job.wait(10)
    advance()
    job.wait(20)
    assert job.lines[-1] == "00:30 rounding 1/1"


def test_without_expected_stages_only_the_time_of_the_stage_is_shown():
    job = Job()
    advance = job.state("calibrating", 20)
    for _ in range(15):
        job.wait(2)
        advance()
    assert job.lines == [
        "00:00 calibrating",
        "00:30 calibrating 14/20, 0.5/s; about 00:12 left in this stage",
    ]
    job.state("rounding", None)()
    job.wait(60)
    assert job.lines[2:] == [
        "00:30 rounding",
        "01:00 rounding 1, 30 s each",
        "01:30 rounding 1, 60 s each",
    ]


def test_the_bar_of_a_stage_has_nothing_of_the_stage_before(monkeypatch: pytest.MonkeyPatch):
    bars = list[Progress]()

    class Watched(Progress):
        def __enter__(self) -> Watched:
            bars.append(self)
            return self

    monkeypatch.setattr(progress, "Progress", Watched)

    def read() -> tuple[float, float | None, bool]:
        [task] = bars[0].tasks
        return task.completed, task.total, task.finished

    with progress.show_bar(Console(file=io.StringIO())) as state:
        for _ in range(2):
            advance = state("calibrating", 2)
            assert read() == (0, 2, False)
            advance()
            advance()
            assert read() == (2, 2, True)
        advance = state("rounding", None)
        assert read() == (0, None, False)
        advance()
        assert read() == (1, None, False)


def test_a_heartbeat_comes_before_the_first_stage_too():
    job = Job()
    job.wait(30)
    assert job.lines == ["00:30 preparing"]


def test_a_stage_that_is_left_out_counts_as_done_and_extra_steps_do_not_exceed_the_whole():
    job = Job()
    job.state.expect([ExpectedStage("measuring channels", 50), *PLAN])
    advance = job.state("calibrating", 2)
    assert job.state.snapshot().done == 50
    for _ in range(5):
        advance()
    assert job.state.snapshot().done == 150
    job.state("calibrating", 2)()
    job.state("reading samples", None)()
    assert job.state.snapshot().done == 150
    for _ in range(200):
        job.state("evaluating", 100)()
    assert job.state.snapshot().done <= job.state.snapshot().total == 450


def test_a_stage_of_unknown_length_moves_on_without_an_end():
    job = Job()
    job.state.expect(PLAN)
    advance = job.state("calibrating", None)
    shares = []
    for _ in range(50):
        advance()
        shares.append(job.state.snapshot().done / 100)
    assert shares == sorted(set(shares))
    assert 0.9 < shares[-1] < 1


@pytest.mark.parametrize("options", [{}, {"effort": "fast"}, {"max_drop": 50.0}, {"method": "kl"}])
def test_a_quantization_expects_its_stages_and_ends_at_the_whole(options):
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> f (float[N, 8] x) => (float[N, 4] y) '
        "<float[8, 8] v = {"
        + ", ".join(map(str, range(64)))
        + "}, float[8, 4] w = {"
        + ", ".join(map(str, range(32)))
        + "}> { a = MatMul(x, v) b = Relu(a) y = MatMul(b, w) }"
    )
    x = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    seen = list[Snapshot]()
    state = ProgressState(seen.append)
    ptq.quantize(model, {"x": x}, threads=1, progress=state, **options)
    started = dict.fromkeys(shown.stage for shown in seen)
    assert {"calibrating", "rounding", "evaluating"} <= started.keys()
    expected = [stage.name for stage in state._expected]
    order = [expected.index(stage) for stage in started if not stage.startswith("reading")]
    assert order == sorted(order)
    done = [shown.done for shown in seen]
    assert done == sorted(done)
    assert {shown.total for shown in seen} == {sum(stage.runs for stage in state._expected)}
    assert max(done) <= seen[0].total
    state.finish()
    assert seen[-1].done == seen[-1].total


def test_a_verb_without_expectations_ends_at_the_steps_of_its_stages():
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }'
    )
    seen = list[Snapshot]()
    state = ProgressState(seen.append)
    ptq.calibrate(model, {"x": np.ones((12, 2), np.float32)}, progress=state)
    assert (seen[-1].stage, seen[-1].done, seen[-1].total) == ("calibrating", 12, 12)


def test_a_thread_writes_the_heartbeat_while_a_step_runs(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_TICK", 0.01)
    monkeypatch.setattr(progress_lines, "QUIET_SECONDS", 0.05)
    with progress.write_lines() as state:
        state("calibrating", 4)
        shown = ""
        for _ in range(1000):
            threading.Event().wait(0.01)
            shown += capsys.readouterr().err
            if shown.count("00:00 calibrating 0/4") >= 2:
                break
    assert shown.splitlines()[:2] == ["00:00 calibrating", "00:00 calibrating 0/4"]
    assert "ptq-progress" not in {thread.name for thread in threading.enumerate()}


def test_an_exception_in_expect_cancels_the_job():
    class Closed(ProgressState):
        def expect(self, stages):
            raise ValueError("the window was closed")

    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }'
    )
    with pytest.raises(
        ptq.Cancelled, match=r"raised ValueError \(planning\): the window was closed"
    ):
        ptq.quantize(model, {"x": np.ones((12, 2), np.float32)}, progress=Closed(lambda _: None))
