"""Writing files; the file system is the oracle."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ptq.core import files
from ptq.core.errors import DataError, PtqError


def test_a_file_holds_what_was_written(tmp_path: Path) -> None:
    files.write(tmp_path / "model.onnx", b"one")
    files.write(tmp_path / "model.onnx", b"two")
    assert (tmp_path / "model.onnx").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_what_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(DataError, match=r"cannot be read \(No such file .*\); give a text file"):
        _read(path)
    path.write_bytes(b"\xff")
    with pytest.raises(DataError, match="not a text in UTF-8; convert it, or remove it"):
        _read(path)


def _read(path: Path) -> str:
    with files.explain_unreadable(path):
        return path.read_text("utf-8")


def test_a_failure_leaves_what_stood_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PtqError, match="No space left on device; choose another place"):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        files.write(tmp_path / "model.onnx", b"x")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "model.onnx").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "real.onnx"
    target.write_bytes(b"old")
    (tmp_path / "link.onnx").symlink_to(target)
    files.write(tmp_path / "link.onnx", b"new")
    assert (tmp_path / "link.onnx").is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write(pipe, b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("where", [".", "missing/model.onnx"])
def test_a_place_that_cannot_be_written_is_found_out_before_the_work(
    tmp_path: Path, where: str
) -> None:
    with pytest.raises(PtqError, match="folder"):
        files.check_writable(tmp_path / where)
    with pytest.raises(PtqError, match="cannot be written"):
        files.write(tmp_path / where, b"x")


def test_a_writable_place_is_accepted(tmp_path: Path) -> None:
    files.check_writable(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    for mode in (0o600, 0o664, 0o6755):
        path.chmod(mode)
        files.write(path, b"new")
        assert path.read_bytes() == b"new"
        assert stat.S_IMODE(path.stat().st_mode) == mode & 0o777


def test_a_url_is_the_same_file_with_another_signature_and_an_encoded_name() -> None:
    one = Path("https://host/of all/a b.npz?sig=1")
    assert files.is_same_file(one, Path("HTTPS://host/of%20all/a%20b.npz?sig=2"))
    assert not files.is_same_file(one, Path("https://host/of all/a.npz?sig=1"))
    assert not files.is_same_file(one, Path("a b.npz"))
    assert not files.is_same_file(Path("s3://b/a b.npz"), Path("s3://b/a%20b.npz"))
