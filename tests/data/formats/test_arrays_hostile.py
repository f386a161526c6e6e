"""Damaged and hostile .npz and .npy files, written byte by byte."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from ptq.core.errors import DataError
from ptq.data import InputSpec, open_samples

SPEC = InputSpec("x", np.dtype(np.float32), (None, 3, 4))
X = np.random.default_rng(0).standard_normal((12, 3, 4)).astype(np.float32)


def npy_bytes(header: dict[str, Any], body: bytes) -> bytes:
    stream = io.BytesIO()
    npy.write_array_header_1_0(stream, header)
    return stream.getvalue() + body


def declared(shape: tuple[int, ...], descr: str = "<f4", body: bytes = b"") -> bytes:
    return npy_bytes({"descr": descr, "fortran_order": False, "shape": shape}, body)


def npz_bytes(members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def saved(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


class Ran:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the pickle was loaded",))


GOOD = saved(x=X)
PICKLE = np.empty(1, object)
PICKLE[0] = Ran()

BAD = {
    "pickled array": npz_bytes({"x.npy": declared((1,), "|O", pickle.dumps(PICKLE))}),
    "pickle": pickle.dumps(PICKLE),
    "pickle as member": npz_bytes({"x.npy": pickle.dumps(PICKLE)}),
    "truncated": GOOD[: len(GOOD) // 2],
    "empty": b"",
    "text": b"hello",
    "no arrays": npz_bytes({}),
    "foreign member": npz_bytes({"x.npy": declared((1, 3, 4), body=bytes(48)), "readme": b"hi"}),
    "path as name": npz_bytes(
        {"x.npy": declared((1, 3, 4), body=bytes(48)), "../../evil.npy": declared((0,))}
    ),
    "declares more": npz_bytes({"x.npy": declared((2**40, 3, 4), body=bytes(48))}),
    "declares less": npz_bytes({"x.npy": declared((1, 3, 4), body=bytes(96))}),
    "negative": npz_bytes({"x.npy": declared((-1, 3, -4), body=bytes(48))}),
    "endless empty rows": npz_bytes({"x.npy": declared((2**60, 0, 4))}),
    "structured": npz_bytes(
        {
            "x.npy": npy_bytes(
                {"descr": [("a", "<f4")], "fortran_order": False, "shape": (1, 3, 4)}, bytes(48)
            )
        }
    ),
    "bad header": npz_bytes({"x.npy": b"\x93NUMPY\x01\x00\x08\x00{'a':((("}),
    "long header": npz_bytes({"x.npy": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{"}),
    "unknown version": npz_bytes({"x.npy": b"\x93NUMPY\x09\x09" + bytes(99)}),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("folder", [False, True])
def test_a_bad_npz_is_an_error_of_one_line_that_names_it(
    tmp_path: Path, name: str, folder: bool
) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(BAD[name])
    with pytest.raises(DataError, match=r"bad\.npz") as caught:
        list(open_samples(tmp_path if folder else path, [SPEC]))
    assert "\n" not in str(caught.value)


def test_skip_bad_skips_bad_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(BAD["pickled array"])
    (tmp_path / "b.npz").write_bytes(GOOD)
    (tmp_path / "c.npz").write_bytes(BAD["truncated"])
    samples = open_samples(tmp_path, [SPEC], skip_bad=True)
    assert [s.name for s in samples] == ["b.npz"]
    assert [name for name, _ in samples.skipped] == ["a.npz", "c.npz"]
    assert "pickled Python objects" in samples.skipped[0][1]


def test_a_bomb_is_refused_by_its_header_and_never_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 64 MiB of zeros stand for 4 GB: no more than the header may be taken from the stream.
    body = bytes(2**26)
    (tmp_path / "bomb.npz").write_bytes(npz_bytes({"x.npy": declared((1, 4096, 4096), body=body)}))
    taken = []
    read = zipfile.ZipExtFile.read

    def counted(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        taken.append(n)
        return read(self, n)

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    with pytest.raises(DataError, match=r"has shape \[1, 4096, 4096\]"):
        list(open_samples(tmp_path, [SPEC]))
    assert taken
    assert all(n is not None and 0 <= n < 2**16 for n in taken)


def test_a_single_sample_beyond_two_gigabytes_is_refused(tmp_path: Path) -> None:
    free = InputSpec("x", np.dtype(np.float32), (None, None, None))
    path = tmp_path / "d.npy"
    with path.open("wb") as file:
        file.write(declared((1, 2**15, 2**15)))
        file.truncate(file.tell() + 2**32)  # sparse
    with pytest.raises(DataError, match=r"too large: a sample may have at most 2 GiB"):
        open_samples(path, [free])


def test_damaged_values_are_found_by_the_checksum(tmp_path: Path) -> None:
    damaged = bytearray(GOOD)
    damaged[damaged.index(X[11].tobytes())] ^= 1
    (tmp_path / "d.npz").write_bytes(damaged)
    with pytest.raises(DataError, match=r"d\.npz: cannot read the \.npz: Bad CRC-32"):
        list(open_samples(tmp_path / "d.npz", [SPEC]))


@pytest.mark.parametrize("shard", [(0, 1), (3, 4)])
def test_whoever_reads_the_last_row_checks_all(tmp_path: Path, shard: tuple[int, int]) -> None:
    many = np.concatenate([X] * 200)
    damaged = bytearray(saved(x=many))
    damaged[damaged.index(many[-1].tobytes()) + many.nbytes // 2] ^= 1
    (tmp_path / "d.npz").write_bytes(damaged)
    samples = open_samples(tmp_path / "d.npz", [SPEC])
    for _ in range(2):
        with pytest.raises(DataError, match=r"d\.npz: cannot read the \.npz: Bad CRC-32"):
            list(samples.shard(*shard))


def test_damage_anywhere_is_an_error_never_another_exception(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    stream = io.BytesIO()
    np.savez_compressed(stream, x=X, labels=np.arange(12))
    refused = 0
    for content in (GOOD, stream.getvalue()):
        intact = np.frombuffer(content, np.uint8)
        for round_ in range(150):
            damaged = intact[: rng.integers(1, len(intact) + 1) if round_ % 3 == 0 else None].copy()
            places = rng.integers(0, len(damaged), 3)
            damaged[places] = rng.integers(0, 256, 3)
            path = tmp_path / "d.npz"
            path.write_bytes(damaged.tobytes())
            for source in (path, tmp_path):
                try:
                    list(open_samples(source, [SPEC]))
                except DataError:
                    refused += 1
    assert refused > 300


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        GOOD,
        declared((12, 3, 4), body=X.tobytes()[:-1]),
        declared((1,), "|O", pickle.dumps(PICKLE)),
        declared((0, 3, 4)),
    ],
)
def test_a_bad_npy_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.npy"):
        list(open_samples(path, [SPEC]))


def test_fortran_order_cannot_be_streamed_and_says_what_to_do(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.asfortranarray(X))
    with pytest.raises(DataError, match=r"array 'x' is in Fortran order.*ascontiguousarray"):
        list(open_samples(tmp_path / "d.npz", [SPEC]))


@pytest.mark.parametrize("name", ["gone.npz", "gone", "data.bin", "model.onnx"])
def test_a_path_that_is_no_data_is_named(tmp_path: Path, name: str) -> None:
    if not name.startswith("gone"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=name):
        open_samples(tmp_path / name, [SPEC])


def test_a_path_with_a_null_byte_is_no_data() -> None:
    with pytest.raises(DataError, match="null"):
        open_samples("a\0b", [SPEC])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
@pytest.mark.parametrize("name", ["d.npz", "d.npy"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="not a file or folder"):
        open_samples(tmp_path / name, [SPEC])
    if name == "d.npz":
        with pytest.raises(DataError, match=r"d\.npz: is not a regular file"):
            list(open_samples(tmp_path, [SPEC]))


@pytest.mark.parametrize("name", ["d.npz", "d.npy"])
def test_a_file_that_vanishes_while_it_is_used_is_named(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "d.npz", x=X)
    np.save(tmp_path / "d.npy", X)
    samples = open_samples(tmp_path / name, [SPEC])
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=name):
        list(samples)
