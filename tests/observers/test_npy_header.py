"""The header of an .npy file, where Python's parser fails because of another thread."""

from __future__ import annotations

import io

import numpy as np
import pytest

from ptq.observers.npy_header import parse_npy_header

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def content(version: tuple[int, int]) -> io.BytesIO:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, ARRAY, version)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_the_stream_stands_at_the_values(version: tuple[int, int]) -> None:
    stream = content(version)
    assert parse_npy_header(stream) == ((2, 3), False, np.float32)
    assert np.array_equal(np.frombuffer(stream.read(), np.float32), ARRAY.ravel())


@pytest.mark.parametrize(("failures", "works"), [(1, True), (4, True), (5, False)])
def test_a_header_that_another_thread_disturbs_is_read_again(
    failures: int, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, parse = [failures], np.lib.format.read_array_header_1_0

    def disturbed(stream: io.BytesIO) -> object:
        found = parse(stream)
        if left[0]:
            left[0] -= 1
            raise SystemError("AST constructor recursion depth mismatch (before=57, after=53)")
        return found

    monkeypatch.setattr("ptq.observers.npy_header.npy.read_array_header_1_0", disturbed)
    if works:
        assert parse_npy_header(content((1, 0)))[0] == (2, 3)
    else:
        with pytest.raises(SystemError):
            parse_npy_header(content((1, 0)))
