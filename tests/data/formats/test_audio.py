"""Folders of WAV files: what arrays they become, and what is refused. The files are written by these tests."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import wavfile

import ptq
from ptq.core.errors import DataError, UsageError
from ptq.core.preprocess_record import describe_differences
from ptq.core.record import decode_record, encode_record
from ptq.data import InputSpec
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.recorded_preprocess import RecordedPreprocess, encode_preprocess

FLOAT = np.dtype(np.float32)
FREE = InputSpec("x", FLOAT, (None, None))
OPTIONS = ptq.AudioPreprocess(8000)
STEPS = np.array([0, 0.5, -1, 0.25], np.float64)


def take(
    folder: Path, spec: InputSpec = FREE, options: Preparation | None = OPTIONS, **more: Any
) -> list[ptq.Sample]:
    return list(ptq.open_samples(folder, [spec], options, **more))


def write_pcm24(path: Path, values: np.ndarray) -> None:
    """A WAV file of 24 bits, which scipy reads but does not write."""
    data = b"".join(int(v).to_bytes(3, "little", signed=True) for v in values)
    header = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 24000, 3, 24)
    body = b"WAVE" + header + struct.pack("<4sI", b"data", len(data)) + data
    path.write_bytes(struct.pack("<4sI", b"RIFF", len(body)) + body)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (np.uint8, 128 + 128 * STEPS),
        (np.int16, 2**15 * STEPS),
        (np.int32, 2**31 * STEPS),
        (np.float32, STEPS),
        (np.float64, STEPS),
    ],
)
def test_each_format_gives_the_same_values(tmp_path: Path, dtype: Any, values: Any) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, values.astype(dtype))
    [sample] = take(tmp_path)
    assert sample.feed["x"].dtype == np.float32
    assert_array_equal(sample.feed["x"], STEPS[None])


def test_24_bits_give_the_same_values(tmp_path: Path) -> None:
    write_pcm24(tmp_path / "a.wav", 2**23 * STEPS)
    assert_array_equal(take(tmp_path)[0].feed["x"], STEPS[None])


def test_channels_are_mixed_to_their_mean(tmp_path: Path) -> None:
    stereo = np.stack([STEPS, np.zeros(4)], axis=1).astype(np.float32)
    wavfile.write(tmp_path / "a.wav", 8000, stereo)
    assert_array_equal(take(tmp_path)[0].feed["x"], STEPS[None] / 2)


@pytest.mark.parametrize("rate", [16000, 44100, 4000])
def test_a_file_of_another_rate_is_resampled(tmp_path: Path, rate: int) -> None:
    """A sine of 440 Hz stays one: its samples at the model's rate are known."""
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    wavfile.write(tmp_path / "a.wav", rate, tone.astype(np.float32))
    [got] = take(tmp_path)[0].feed["x"]
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    assert got.shape == (8000,)
    assert_allclose(got[200:-200], expected[200:-200], atol=2e-3)


def test_what_resampling_overshoots_is_clipped(tmp_path: Path) -> None:
    square = np.where(np.arange(4000) // 40 % 2, 32767, -32768).astype(np.int16)
    wavfile.write(tmp_path / "a.wav", 16000, square)
    assert np.abs(take(tmp_path)[0].feed["x"]).max() == 1


@pytest.mark.parametrize(
    ("shape", "got"),
    [
        ((6,), (6,)),
        ((1, 6), (1, 6)),
        ((None, 6), (1, 6)),
        ((1, 1, 6), (1, 1, 6)),
        ((None, 1, 6), (1, 1, 6)),
        ((None,), (4,)),
        ((None, 1, None), (1, 1, 4)),
    ],
)
def test_the_model_gives_the_shape(tmp_path: Path, shape: Any, got: Any) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, STEPS.astype(np.float32))
    feed = take(tmp_path, InputSpec("x", FLOAT, shape))[0].feed["x"]
    assert feed.shape == got
    assert_array_equal(feed.ravel()[:4], STEPS)
    assert not feed.ravel()[4:].any()  # zeros at the end


def test_a_longer_signal_is_cut_at_the_center(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, np.arange(9, dtype=np.int16) * 1024)
    [got] = take(tmp_path, InputSpec("x", FLOAT, (1, 4)))[0].feed["x"]
    assert_array_equal(got * 32, [2, 3, 4, 5])


def test_class_folders_and_label_files_give_labels(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        wavfile.write(tmp_path / "classes" / name / "1.wav", 8000, STEPS.astype(np.float32))
    samples = ptq.open_samples(tmp_path / "classes", [FREE], OPTIONS)
    assert [(s.name, s.labels) for s in samples] == [("cat/1.wav", (0,)), ("dog/1.wav", (1,))]
    assert samples.classes == ("cat", "dog")
    (tmp_path / "flat").mkdir()
    for name in ("a.wav", "b.WAV"):
        wavfile.write(tmp_path / "flat" / name, 8000, STEPS.astype(np.float32))
    (tmp_path / "flat" / "labels.txt").write_text("a.wav 3\nb.WAV 1\n")
    assert [s.labels for s in take(tmp_path / "flat")] == [(3,), (1,)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"ID3\x04 an mp3", "not a WAV file"),
        (b"", "not a WAV file"),
        (b"RIFF\x24\0\0\0WAVE", "cannot read the WAV file"),
    ],
)
def test_what_is_no_wav_file_is_refused_in_one_line(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(DataError, match=reason) as caught:
        take(tmp_path)
    assert "\n" not in str(caught.value)
    assert "a.wav" in str(caught.value)


def test_an_empty_and_a_truncated_file_are_refused(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, np.zeros(0, np.int16))
    with pytest.raises(DataError, match="has no samples"):
        take(tmp_path)
    wavfile.write(tmp_path / "a.wav", 8000, np.zeros(100, np.int16))
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:-20])
    with pytest.raises(DataError, match="ends early"):
        take(tmp_path)


@pytest.mark.parametrize("bits", [16, 24, 32, 64])
def test_a_cut_at_any_byte_is_one_clear_line(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "a.wav"
    if bits == 24:
        write_pcm24(path, np.arange(100))
    else:
        wavfile.write(path, 8000, np.zeros((50, 2), {16: "i2", 32: "f4", 64: "f8"}[bits]))
    whole = path.read_bytes()
    for cut in range(1, 30):
        path.write_bytes(whole[:-cut])
        with pytest.raises(DataError, match=r"a\.wav: .*ends early; copy it again, or remove it$"):
            take(tmp_path)


def test_a_bad_file_can_be_left_out(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, STEPS.astype(np.float32))
    (tmp_path / "b.flac").write_bytes(b"fLaC")
    samples = ptq.open_samples(tmp_path, [FREE], OPTIONS, skip_bad=True)
    assert [s.name for s in samples] == ["a.wav"]
    assert [name for name, _ in samples.skipped] == ["b.flac"]


def test_float_values_that_are_no_audio_are_refused(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, np.array([0, 20000], np.float32))
    with pytest.raises(DataError, match="up to 20000"):
        take(tmp_path)


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ([InputSpec("x", np.dtype(np.int16), (1, 4))], "audio feeds float inputs"),
        ([InputSpec("x", FLOAT, (1, 3, 8, 8))], r"audio feeds \[N\]"),
        ([InputSpec("x", FLOAT, (4, 100))], r"audio feeds \[N\]"),
        ([FREE, InputSpec("state", FLOAT, (1, 4))], "inputs are 'x', 'state'"),
    ],
)
def test_a_model_that_takes_no_audio_is_refused(tmp_path: Path, specs: Any, reason: str) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, STEPS.astype(np.float32))
    with pytest.raises((DataError, UsageError), match=reason):
        ptq.open_samples(tmp_path, specs, OPTIONS)


def test_a_missing_rate_and_options_of_another_kind_are_named(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, STEPS.astype(np.float32))
    with pytest.raises(UsageError, match="needs the sample rate"):
        take(tmp_path, options=None)
    with pytest.raises(UsageError, match="options for images do not apply"):
        take(tmp_path, options=ptq.Preprocess(mean=(0.5,)))
    with pytest.raises(UsageError, match="options for audio apply only to a folder of WAV"):
        ptq.open_samples(np.zeros((2, 4), np.float32), [FREE], OPTIONS)
    with pytest.raises(DataError, match="single WAV file"):
        take(tmp_path / "a.wav")


@pytest.mark.parametrize("rate", [0, 999, 768001, 8000.0, True])
def test_a_rate_that_is_none_is_refused(rate: Any) -> None:
    with pytest.raises(
        UsageError, match=r"sample_rate .* is not a whole number from 1000 to 768000"
    ):
        ptq.AudioPreprocess(rate)


def test_the_record_gives_the_rate_unless_another_is_given(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", 8000, np.zeros(800, np.float32))
    spec = InputSpec("x", FLOAT, (1, 700))
    record = decode_record(encode_record(encode_preprocess(OPTIONS.resolved(spec))))
    assert record == {
        "source": "audio",
        "sample_rate": 8000,
        "length": 700,
        "length_rule": "cut at the center or zeros at the end",
    }
    known = RecordedPreprocess(record, "the model")
    assert known.to_options() == OPTIONS.resolved(spec)
    assert ptq.open_samples(tmp_path, [spec], recorded=known).preprocess == OPTIONS.resolved(spec)
    other = ptq.open_samples(tmp_path, [spec], ptq.AudioPreprocess(4000), recorded=known)
    assert known.describe_difference(other.preprocess) == (
        "preprocessing differs from the model: sample_rate 4000 instead of 8000"
    )
    assert "audio instead of arrays" in describe_differences(record, {"source": "feeds"})


@pytest.mark.parametrize(
    "change", [{"sample_rate": "8000"}, {"length_rule": "repeated"}, {"gain": 2}]
)
def test_a_damaged_record_is_refused(change: dict[str, Any]) -> None:
    record = {"source": "audio", "sample_rate": 8000, "length_rule": "unchanged"} | change
    with pytest.raises(DataError, match="cannot be used"):
        RecordedPreprocess(record, "the model").to_options()
