"""WAV folders with ``--sample-rate`` and texts with ``--tokenizer``, from the float model to the next command."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import FAST, call, next_command, records, say
from networks import build_network
from scipy.io import wavfile
from tokenizer_file import WORDS, write_tokenizer

import ptq
from ptq.core.plan import Plan
from ptq.model.metadata import PREPROCESS
from ptq.observers.calibration_file import load

AUDIO = {
    "source": "audio",
    "sample_rate": 4000,
    "length": 400,
    "length_rule": "cut at the center or zeros at the end",
}
SOME = ["--samples", "16"]


def write_audio(folder: Path) -> None:
    """Quiet and loud tones at 8000 Hz, and a model of 400 values at 4000 Hz."""
    rng = np.random.default_rng(3)
    for number in range(20):
        label, peak = (("0_quiet", 0.1), ("1_loud", 0.8))[number % 2]
        (folder / "sounds" / label).mkdir(parents=True, exist_ok=True)
        pitch = rng.uniform(200, 900)
        tone = peak * np.sin(2 * np.pi * pitch * np.arange(600 + 40 * number) / 8000)
        path = folder / "sounds" / label / f"{number}.wav"
        wavfile.write(path, 8000, (32767 * tone).astype(np.int16))
    model = build_network(
        "c = Conv <kernel_shape = [9]> (x, w)\nr = Relu(c)\ng = GlobalAveragePool(r)\nf = Flatten(g)\n"
        "y = Gemm(f, m, b)",
        {"x": (1, 1, 400)},
        w=rng.normal(0, 1, (4, 1, 9)).astype(np.float32),
        m=np.array([[-1, 1]] * 4, np.float32),
        b=np.array([0.5, -0.5], np.float32),
    )
    onnx.save(model, folder / "model.onnx")


def write_texts(folder: Path) -> None:
    """Lines of known words, a tokenizer, and a model that takes 8 tokens."""
    rng = np.random.default_rng(4)
    lines = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(20)]
    (folder / "texts.txt").write_text("\n".join(lines))
    write_tokenizer(folder / "tok.json")
    model = build_network(
        "e = Gather(t, input_ids)\nm = Cast <to = 1> (attention_mask)\nu = Unsqueeze(m, axis)\nk = Mul(e, u)\n"
        "h = MatMul(k, w)\nr = Relu(h)\ns = ReduceMean <axes = [1], keepdims = 0> (r)\ny = MatMul(s, v)",
        {"input_ids": ("n", 8), "attention_mask": ("n", 8)},
        types={"input_ids": onnx.TensorProto.INT64, "attention_mask": onnx.TensorProto.INT64},
        t=rng.normal(0, 1, (len(WORDS) + 4, 16)).astype(np.float32),
        w=rng.normal(0, 1, (16, 16)).astype(np.float32),
        v=rng.normal(0, 1, (16, 2)).astype(np.float32),
        axis=np.array([2], np.int64),
    )
    onnx.save(model, folder / "model.onnx")


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In a folder of sounds: what the quantization of the audio model prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("audio"))
        patch.setenv("COLUMNS", "200")
        write_audio(folder)
        options = ["--data", "sounds", "--sample-rate", 4000, *FAST]
        yield say("quantize", "model.onnx", *options, "-o", "q.onnx", "--save-plan", "plan.json")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In a folder of texts: what the quantization of the text model prints."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("text"))
        patch.setenv("COLUMNS", "200")
        write_texts(folder)
        options = ["--data", "texts.txt", "--tokenizer", "tok.json", *FAST]
        yield say("quantize", "model.onnx", *options, "-o", "q.onnx", "--save-plan", "plan.json")


def test_audio_is_recorded_in_model_and_plan_and_said_in_the_report(audio: str) -> None:
    assert "audio: mono, 4000 Hz, 400 values, cut at the center or zeros at the end" in audio
    assert records("q.onnx")[PREPROCESS] == AUDIO
    assert Plan.from_json(Path("plan.json").read_text()).preprocess == AUDIO


def test_audio_needs_no_option_once_the_model_records_it(audio: str) -> None:
    command = next_command(audio)
    assert command == ["verify", "q.onnx", "--data", "sounds", *SOME]
    assert "(as recorded by the model)" in say(*command)
    printed = say("evaluate", "q.onnx", "--data", "sounds", "--sample-rate", 8000)
    assert "preprocessing differs from the model: sample_rate 8000 instead" in printed


def test_the_next_command_has_the_rate_if_the_model_records_nothing(audio: str) -> None:
    options = ["--data", "sounds", "--sample-rate", 4000, *FAST, "--no-metadata"]
    command = next_command(say("quantize", "model.onnx", *options, "-o", "bare.onnx"))
    assert command == ["verify", "bare.onnx", "--data", "sounds", *SOME, "--sample-rate=4000"]
    say(*command)


def test_statistics_of_audio_carry_the_rate(audio: str) -> None:
    options = ["--data", "sounds", "--sample-rate", 4000, "--workers", 2, "--threads", 1]
    say("calibrate", "model.onnx", *options, "-o", "s.npz")
    assert load(Path("s.npz")).preprocess == AUDIO
    say("quantize", "model.onnx", "--stats", "s.npz", "--eval", "sounds", *FAST, "-o", "s.onnx")
    assert records("s.onnx")[PREPROCESS] == AUDIO


def test_audio_without_a_rate_is_refused_in_one_line(audio: str) -> None:
    code, printed = call("quantize", "model.onnx", "--data", "sounds", "-o", "x.onnx")
    assert code == 2
    assert "audio needs the sample rate" in printed
    assert "Traceback" not in printed
    assert not Path("x.onnx").exists()


def test_options_of_two_kinds_are_refused(audio: str) -> None:
    options = ["--data", "sounds", "--sample-rate", 4000, "--mean", 0.5]
    code, printed = call("evaluate", "q.onnx", *options)
    assert code == 2
    assert "options for images and audio are given" in printed


def test_audio_in_python_gives_the_same_model(audio: str) -> None:
    result = ptq.quantize(
        "model.onnx", "sounds", preprocess=ptq.AudioPreprocess(4000), threads=1,
        rounding="nearest", equalize=False, method="minmax",
    )  # fmt: skip
    result.save(Path("python.onnx"))
    assert Path("python.onnx").read_bytes() == Path("q.onnx").read_bytes()


def test_text_is_recorded_by_the_digest_of_the_tokenizer(text: str) -> None:
    digest = hashlib.sha256(Path("tok.json").read_bytes()).hexdigest()
    record = {
        "source": "text",
        "tokenizer_sha256": digest,
        "length": 8,
        "length_rule": "truncated or padded",
    }
    assert f"text: tokenizer {digest[:12]}…, 8 tokens, truncated or padded" in text
    assert records("q.onnx")[PREPROCESS] == record
    assert Plan.from_json(Path("plan.json").read_text()).preprocess == record
    for made in ("q.onnx", "plan.json"):
        assert b"tok.json" not in Path(made).read_bytes()
    say("inspect", "q.onnx")
    call("lint", "q.onnx")


def test_the_next_command_has_the_tokenizer_and_runs(text: str) -> None:
    command = next_command(text)
    assert command == ["verify", "q.onnx", "--data", "texts.txt", *SOME, "--tokenizer=tok.json"]
    assert "(as recorded by the model)" in say(*command)


def test_an_evaluation_of_texts_without_the_tokenizer_is_refused(text: str) -> None:
    code, printed = call("evaluate", "q.onnx", "--data", "texts.txt")
    assert code == 2
    assert "need the tokenizer file of the model, with SHA-256" in " ".join(printed.split())
    assert "Traceback" not in printed


def test_an_evaluation_with_another_tokenizer_is_named(text: str) -> None:
    write_tokenizer(Path("other.json"), WORDS[::-1])
    printed = say("evaluate", "q.onnx", "--data", "texts.txt", "--tokenizer", "other.json")
    assert "preprocessing differs from the model: tokenizer_sha256 " in " ".join(printed.split())


def test_statistics_of_texts_carry_the_digest(text: str) -> None:
    options = ["--data", "texts.txt", "--tokenizer", "tok.json", "--workers", 2, "--threads", 1]
    say("calibrate", "model.onnx", *options, "-o", "s.npz")
    assert load(Path("s.npz")).preprocess == records("q.onnx")[PREPROCESS]
    assert b"tok.json" not in Path("s.npz").read_bytes()
    arguments = ["model.onnx", "--stats", "s.npz", "--eval", "texts.txt", *FAST, "-o", "s.onnx"]
    assert call("quantize", *arguments)[0] == 2
    say("quantize", *arguments, "--tokenizer", "tok.json")
