"""A model in one file or two, whole or not at all; the file system and ONNX Runtime are the oracle."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import onnxruntime
import pytest
from networks import build_network
from parts import W

from ptq.model.graph import Graph
from ptq.model.proto import external_data
from ptq.model.save import save

GRAPH = Graph.from_proto(build_network("y = Conv(x, w)", w=W))
FULL = OSError(28, "No space left on device")
SIGNALS = [SystemExit(143), KeyboardInterrupt()]


@pytest.fixture(autouse=True)
def two_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that the weights pass."""
    monkeypatch.setattr(external_data, "MAX_PROTO_BYTES", 100)


def _failing_move(
    monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException, *, done: bool
) -> None:
    """Let something come between when the given file is moved into place, before that or after."""
    move, calls = os.replace, iter(range(9))

    def replace(source: Path, place: Path) -> None:
        hit = next(calls) == number
        if not hit or done:
            move(source, place)
        if hit:
            raise error

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.parametrize(
    ("number", "error", "done"),
    [
        *((number, error, False) for number in (0, 1) for error in (FULL, *SIGNALS)),
        *((0, error, True) for error in SIGNALS),
    ],
)
def test_what_comes_between_leaves_the_earlier_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException, done: bool
) -> None:
    (tmp_path / "out.onnx").write_bytes(b"earlier")
    _failing_move(monkeypatch, number, error, done=done)
    with pytest.raises(BaseException, match=r".*") as caught:
        save(GRAPH, tmp_path / "out.onnx")
    assert caught.value is error or error is FULL
    assert os.listdir(tmp_path) == ["out.onnx"]
    assert (tmp_path / "out.onnx").read_bytes() == b"earlier"


@pytest.mark.parametrize("error", SIGNALS)
def test_a_signal_after_all_is_written_takes_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    _failing_move(monkeypatch, 1, error, done=True)
    with pytest.raises(type(error)):
        save(GRAPH, tmp_path / "out.onnx")
    assert sorted(os.listdir(tmp_path)) == ["out.onnx", "out.onnx.data"]
    onnxruntime.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])


def test_a_real_signal_while_the_weights_are_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated(number: int, frame: object) -> None:
        raise SystemExit(143)

    fsync = os.fsync

    def slow(descriptor: int) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        fsync(descriptor)

    before = signal.signal(signal.SIGUSR1, terminated)
    try:
        monkeypatch.setattr(os, "fsync", slow)
        with pytest.raises(SystemExit):
            save(GRAPH, tmp_path / "out.onnx")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert os.listdir(tmp_path) == []
