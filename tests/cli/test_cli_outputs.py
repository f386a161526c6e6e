"""What becomes of files: none of the user's is harmed, none is half written, an interrupted run goes on.

The file system is the oracle, and an uninterrupted run.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from ptq_cli.outputs import choose_default_output

FAST = ("--effort", "fast", "--threads", 1)
PATIENCE = 60  # seconds until a process that should have begun is given up
SLOW = """
import os, pathlib, time
import numpy as np
from ptq.data import sample_store

sample_store.MEMORY_BYTES = 0  # samples are read on every pass

def samples():
    for index in range(8):
        x = np.random.default_rng(index).standard_normal((1, 3, 8, 8)).astype(np.float32)
        yield {"x": x}
        if index == 5 and "WAIT" in os.environ and os.path.exists("state"):
            pathlib.Path("begun").touch()
            time.sleep(60)
"""


def _ptq(*arguments: object, **how: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ptq_cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, text=True, **how)


@pytest.mark.parametrize(
    ("verb", "more", "number"),
    [("quantize", (), signal.SIGKILL), ("calibrate", ("-o", "stats.npz"), signal.SIGINT)],
)
def test_an_interrupted_run_goes_on_and_writes_the_same_bytes(model, verb, more, number):
    Path("slow.py").write_text(SLOW)
    given = [verb, model, "--data", "slow:samples", "--threads", 1]
    given += ["--effort", "fast"] if verb == "quantize" else []
    output = Path(more[1] if more else "model.int8.onnx")
    assert _ptq(*given, *more).returncode == 0
    whole = output.read_bytes()
    output.unlink()
    command = [sys.executable, "-m", "ptq_cli", *map(str, given), *more, "--checkpoint", "state"]
    process = subprocess.Popen(
        command,
        env={**os.environ, "WAIT": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE
    while not Path("begun").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait() in (130, -signal.SIGKILL)
    assert not output.exists()
    left = Path("state").read_bytes()
    assert _ptq(*given, *more, "--checkpoint", "state").returncode == 0
    assert output.read_bytes() == whole
    assert Path("state").read_bytes() != left
    shutil.rmtree("__pycache__", ignore_errors=True)
    assert sorted(os.listdir()) == sorted(["begun", "slow.py", "state", output.name])


def test_a_checkpoint_of_other_preprocessing_is_refused_in_one_line(ptq, model):
    Path("images").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(f"images/{number}.png")
    given = ("calibrate", model, "--data", "images", "-o", "s.npz", "--checkpoint", "state")
    assert ptq(*given).code == 0
    outcome = ptq(*given, "--mean", "0.5")
    assert outcome.code == 1
    assert "other preprocessing" in outcome.line


def test_a_full_disk_leaves_the_earlier_output_and_nothing_else(model, data):
    Path("model.int8.onnx").write_text("earlier")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = _ptq("quantize", model, "--data", data, *FAST, preexec_fn=limit)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "cannot be written: File too large" in done.stderr
    assert Path("model.int8.onnx").read_text() == "earlier"
    assert os.listdir() == ["model.int8.onnx"]


SMALL = (
    "import ptq.api.quantize; from ptq.model.proto import external_data; external_data.MAX_PROTO_BYTES = 100; "
    "from ptq_cli.main import main; main()"
)


def test_a_full_disk_leaves_neither_of_two_files(model, data):
    command = [sys.executable, "-c", SMALL, "quantize", model, "--data", data, *FAST]
    command = [str(argument) for argument in command]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir()) == ["model.int8.onnx", "model.int8.onnx.data"]
    assert os.path.getsize("model.int8.onnx.data") < 1000 < os.path.getsize("model.int8.onnx")
    for name in os.listdir():
        os.remove(name)
    for size in (100, 1000):  # less than the weights; enough for them alone
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, preexec_fn=limit
        )
        assert done.returncode == 1
        assert "cannot be written: File too large" in done.stderr
        assert os.listdir() == []


def test_too_little_room_is_found_out_before_the_work(ptq, model, data, monkeypatch):
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    monkeypatch.setattr("ptq.api.quantize.quantize", None)
    outcome = ptq("quantize", model, "--data", data)
    assert outcome.code == 1
    assert "has 0.0 MB free" in outcome.line


@pytest.mark.parametrize(
    ("which", "how"),
    [
        *((which, how) for which in ("model", "weights", "sample") for how in ("same", "symbolic")),
        ("model", "hard"),
    ],
)
def test_no_input_is_written_over_by_whatever_name(ptq, model, data, which, how):
    loaded = onnx.load(model)
    onnx.save(
        loaded, "apart.onnx", save_as_external_data=True, location="apart.bin", size_threshold=0
    )
    Path("folder").mkdir()
    with np.load(data) as arrays:
        np.savez("folder/0.npz", x=arrays["x"][:1])
    victim = Path({"model": "apart.onnx", "weights": "apart.bin", "sample": "folder/0.npz"}[which])
    output = victim
    if how == "symbolic":
        output = Path("link")
        output.symlink_to(victim)
    elif how == "hard":
        if which != "model":
            pytest.skip(
                "onnx refuses external data with several names; a sample's copy is no sample"
            )
        output = Path("link")
        output.hardlink_to(victim)
    before = victim.read_bytes()
    outcome = ptq("quantize", "apart.onnx", "--data", "folder", "-o", output)
    assert outcome.code == 2
    assert "give another name" in outcome.line
    assert victim.read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        ("calibrate", "apart.onnx", "--data", "DATA", "-o", "apart.bin"),
        ("calibrate", "apart.onnx", "--data", "DATA", "-o", "s.npz", "--checkpoint", "apart.bin"),
        ("inspect", "apart.onnx", "--json", "apart.bin"),
        ("evaluate", "apart.onnx", "--data", "DATA", "--report", "apart.bin"),
        ("evaluate", "apart.onnx", "--data", "DATA", "--summary", "apart.bin"),
        ("compare", "MODEL", "apart.onnx", "--data", "DATA", "--json", "apart.bin"),
        ("sensitivity", "apart.onnx", "--data", "DATA", "--json", "apart.bin"),
        ("frontier", "apart.onnx", "--data", "DATA", "--report", "apart.bin"),
        ("tune", "apart.onnx", "-o", "apart.bin"),
        ("benchmark", "apart.onnx", "--json", "apart.bin"),
    ],
    ids=" ".join,
)
def test_no_command_writes_over_the_weights_of_its_model(ptq, model, data, command):
    onnx.save(
        onnx.load(model),
        "apart.onnx",
        save_as_external_data=True,
        location="apart.bin",
        size_threshold=0,
    )
    before = Path("apart.bin").read_bytes()
    given = {"MODEL": model, "DATA": data}
    outcome = ptq(*(given.get(word, word) for word in command))
    assert outcome.code == 2
    assert "output apart.bin is the input apart.bin itself" in outcome.line
    assert Path("apart.bin").read_bytes() == before


def test_nothing_is_written_but_what_is_asked_for(ptq, model, data, folder):
    before = sorted(os.listdir(folder / "given"))
    assert ptq("quantize", model, "--data", data, "-o", "q.onnx").code == 0
    assert ptq("verify", "q.onnx", "--data", data).code == 0
    assert ptq("evaluate", "q.onnx", "--data", data, "--against", model).code == 0
    assert ptq("inspect", model).code == 0
    assert os.listdir() == ["q.onnx"]
    assert sorted(os.listdir(folder / "given")) == before


@pytest.mark.parametrize("verb", ["quantize", "calibrate", "evaluate", "verify"])
def test_bad_samples_that_are_left_out_are_counted_and_named(ptq, model, data, verb):
    Path("folder").mkdir()
    with np.load(data) as arrays:
        for number in range(4):
            np.savez(f"folder/{number}.npz", x=arrays["x"][number : number + 1])
    Path("folder/2.npz").write_bytes(b"damaged")
    bad = np.full((1, 3, 8, 8), np.nan, np.float32)
    np.savez("folder/3.npz", x=bad)
    assert ptq("quantize", model, "--data", data, "-o", "q.onnx").code == 0
    given = {
        "quantize": ("quantize", model, "--json", "r.json"),
        "calibrate": ("calibrate", model, "-o", "s.npz"),
        "evaluate": ("evaluate", "q.onnx"),
        "verify": ("verify", "q.onnx"),
    }[verb]
    stopped = ptq(*given, "--data", "folder")
    assert stopped.code == 1
    assert "2.npz" in stopped.line
    outcome = ptq(*given, "--data", "folder", "--skip-bad-samples")
    assert outcome.code == 0
    first, damaged, nan, *rest = outcome.err.splitlines()
    assert rest == (["replaced r.json"] if verb == "quantize" else [])
    assert first == "skipped 2 bad samples:"
    assert "2.npz" in damaged
    assert "3.npz" in nan
    assert "NaN" in nan


@pytest.mark.parametrize("end", ["?TOKEN.SIG", "?sig=a.b", "#SEC.x", ""])
def test_the_default_output_has_no_part_of_a_query(end):
    for name, stem in (("m", "m"), ("m[1]", "m[1]"), ("of%20all/m%20x", "m x")):
        model = Path(f"https://me:pass@host/{name}.onnx{end}")
        assert choose_default_output(model) == Path(f"{stem}.int8.onnx")
    assert choose_default_output(Path("s3://b/c#1.onnx")) == Path("c#1.int8.onnx")
