"""Texts with a tokenizer file: what arrays they become, and what is refused."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tokenizer_file import write_tokenizer

import ptq
from ptq.core.errors import DataError, UsageError
from ptq.core.record import decode_record, encode_record
from ptq.data import InputSpec
from ptq.data.preprocessing.recorded_preprocess import RecordedPreprocess, encode_preprocess

pytest.importorskip("tokenizers", reason="tokenizers is not installed")

NAMES = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


def specs(
    length: int | None = None, names: tuple[str, ...] = NAMES, dtype: Any = np.int64
) -> list[InputSpec]:
    return [InputSpec(name, np.dtype(dtype), (None, length)) for name in names]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    return write_tokenizer(tmp_path / "tokenizer.json")


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_bytes("good movie\r\n\r\n  \nthe plot was bad\n".encode("utf-8-sig"))
    return path


def take(data: Path, inputs: list[InputSpec], tokenizer: Path) -> list[ptq.Sample]:
    return list(ptq.open_samples(data, inputs, ptq.TextPreprocess(tokenizer)))


def test_each_line_is_a_sample_of_its_own_length(lines: Path, tokenizer: Path) -> None:
    first, second = take(lines, specs(), tokenizer)
    assert (first.name, second.name) == ("texts.txt line 1", "texts.txt line 4")
    assert_array_equal(first.feed["input_ids"], [[1, 5, 6, 2]])
    assert second.feed["input_ids"].shape == (1, 6)
    assert_array_equal(first.feed["attention_mask"], [[1, 1, 1, 1]])
    assert_array_equal(first.feed["token_type_ids"], [[0, 0, 0, 0]])
    assert_array_equal(first.feed["position_ids"], [[0, 1, 2, 3]])


def test_a_fixed_length_truncates_and_pads(lines: Path, tokenizer: Path) -> None:
    first, second = take(lines, specs(5), tokenizer)
    assert_array_equal(first.feed["input_ids"], [[1, 5, 6, 2, 3]])
    assert_array_equal(first.feed["attention_mask"], [[1, 1, 1, 1, 0]])
    assert_array_equal(second.feed["input_ids"], [[1, 9, 10, 7, 2]])  # the end mark stays


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_model_says_which_inputs_and_which_type(
    lines: Path, tokenizer: Path, dtype: Any
) -> None:
    feed = take(lines, specs(names=("attention_mask", "input_ids"), dtype=dtype), tokenizer)[0].feed
    assert list(feed) == ["attention_mask", "input_ids"]
    assert {array.dtype for array in feed.values()} == {np.dtype(dtype)}


def test_a_folder_gives_a_text_for_each_file_and_labels(tmp_path: Path, tokenizer: Path) -> None:
    folder = tmp_path / "reviews"
    for label, text in (("bad", "boring\nplot"), ("good", "great story")):
        (folder / label).mkdir(parents=True)
        (folder / label / "1.txt").write_text(text)
    (folder / "classes.txt").write_text("good\nbad\n")
    found = take(folder, specs(), tokenizer)
    assert [(s.name, s.labels) for s in found] == [("bad/1.txt", (1,)), ("good/1.txt", (0,))]
    assert found[0].feed["input_ids"].shape == (1, 4)


def test_a_labels_file_in_a_folder_of_texts_is_no_text(tmp_path: Path, tokenizer: Path) -> None:
    folder = tmp_path / "flat"
    folder.mkdir()
    (folder / "a.txt").write_text("good")
    (folder / "b.txt").write_text("a.txt bad")  # a text that begins like a list of files
    (folder / "labels.txt").write_text("a.txt 1\nb.txt 0\n")
    assert [s.labels for s in take(folder, specs(), tokenizer)] == [(1,), (0,)]


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (specs(names=("input_ids", "pixel_values")), "has 'pixel_values'"),
        (specs(names=("attention_mask",)), "has no input_ids"),
        (specs(dtype=np.float32), "texts feed int64 or int32"),
        ([InputSpec("input_ids", np.dtype(np.int64), (8, 16))], r"texts feed \[1, length\]"),
        (specs(2), "adds 2 special tokens"),
    ],
)
def test_a_model_that_takes_no_text_is_refused(
    lines: Path, tokenizer: Path, inputs: list[InputSpec], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        take(lines, inputs, tokenizer)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe\0", b"[1, 2"])
def test_a_damaged_tokenizer_file_is_refused_in_one_line(
    lines: Path, tokenizer: Path, content: bytes
) -> None:
    tokenizer.write_bytes(content)
    with pytest.raises(UsageError, match=r"is not a tokenizer\.json") as caught:
        take(lines, specs(), tokenizer)
    assert "\n" not in str(caught.value)


def test_an_absent_tokenizer_file_and_an_absent_package_are_named(
    lines: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"absent\.json cannot be read"):
        take(lines, specs(), tokenizer.with_name("absent.json"))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match=r'pip install "onnx-ptq\[text\]"'):
        take(lines, specs(), tokenizer)


def test_a_fixed_length_without_a_padding_token_is_refused(lines: Path, tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path / "other.json", pad="filler")
    with pytest.raises(UsageError, match="names no padding token"):
        take(lines, specs(8), path)
    assert len(take(lines, specs(), path)) == 2


def test_bad_texts_are_refused(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "t.txt"
    for content, reason in ((b" \n\n", "every line is blank"), (b"caf\xe9", "not a text in UTF-8")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=reason):
            take(path, specs(), tokenizer)
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("\n")
    with pytest.raises(DataError, match=r"a\.txt: the text is empty"):
        take(folder, specs(), tokenizer)


def test_texts_without_a_tokenizer_are_refused(lines: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need the tokenizer file"):
        ptq.open_samples(lines, specs())
    with pytest.raises(UsageError, match="options for audio do not apply"):
        ptq.open_samples(lines, specs(), ptq.AudioPreprocess(8000))
    with pytest.raises(UsageError, match="options for text apply only to"):
        ptq.open_samples([], specs(), ptq.TextPreprocess("t.json"))


def test_the_record_names_the_digest_and_no_path(lines: Path, tokenizer: Path) -> None:
    samples = ptq.open_samples(lines, specs(8), ptq.TextPreprocess(tokenizer))
    record = decode_record(encode_record(encode_preprocess(samples.preprocess)))
    digest = hashlib.sha256(tokenizer.read_bytes()).hexdigest()
    assert record == {
        "source": "text",
        "tokenizer_sha256": digest,
        "length": 8,
        "length_rule": "truncated or padded",
    }
    known = RecordedPreprocess(record, "the model")
    with pytest.raises(UsageError, match=f"with SHA-256 {digest}, as recorded"):
        ptq.open_samples(lines, specs(8), recorded=known)
    write_tokenizer(tokenizer, ["other", "words"])
    other = ptq.open_samples(lines, specs(8), ptq.TextPreprocess(tokenizer), recorded=known)
    difference = known.describe_difference(other.preprocess)
    assert difference.startswith("preprocessing differs from the model: tokenizer_sha256 ")
    assert difference.endswith(f" instead of {digest}")
