"""No command replaces a file that it reads, whatever option names it; the file system is the oracle."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from ptq_cli.given_files import READ_OPTIONS, find_replaced_input
from ptq_cli.main import app

PROCESSOR = '{"input_size": [3, 8, 8], "mean": [0, 0, 0], "std": [1, 1, 1]}'
READ = "evaluate MODEL --data DATA"
QUANTIZE = "quantize MODEL --data DATA"


@pytest.mark.parametrize(
    "command",
    [
        "evaluate MODEL --data folder/*.npz --json folder/a.npz",
        "evaluate MODEL --data folder/*.npz --report folder/a.npz",
        "calibrate MODEL --data folder/{a,b}.npz -o folder/a.npz",
        "quantize MODEL --data DATA --eval folder/?.npz -o folder/a.npz",
        "evaluate MODEL --data links --json folder/a.npz",
        "evaluate MODEL --data linked_folder --json folder/a.npz",
        "evaluate MODEL --data own_samples:read --json own_samples.py",
        f"{READ} --transcripts text.txt --json text.txt",
        f"{READ} --boxes text.txt --summary text.txt",
        f"{READ} --alphabet text.txt --transcripts DATA --json text.txt",
        f"{READ} --tokenizer text.txt --json text.txt",
        f"{READ} --preprocess text.txt --json text.txt",
        f"{READ} --config options.toml --json options.toml",
        f"{QUANTIZE} --cost-table text.txt -o text.txt",
        f"{QUANTIZE} --json ptq.toml",
    ],
)
def test_no_output_replaces_a_file_that_an_option_names(ptq, model, data, command):
    for name in ("folder", "links"):
        Path(name).mkdir()
    for name in "ab":
        shutil.copy(data, f"folder/{name}.npz")
    os.symlink("../folder/a.npz", "links/a.npz")
    Path("linked_folder").mkdir()
    os.symlink("../folder", "linked_folder/train")
    texts = [
        "text.txt",
        "options.toml",
        "own_samples.py",
        *(["ptq.toml"] * command.endswith("ptq.toml")),
    ]
    for name in texts:
        Path(name).write_text(PROCESSOR if name == "text.txt" else "")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    given = {"MODEL": model, "DATA": data}
    outcome = ptq(*(given.get(word, word) for word in command.split()))
    assert outcome.code == 2
    assert "; give another name" in outcome.err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_a_word_of_the_environment_in_a_path_hides_no_input(ptq, model, data, monkeypatch):
    """Documents show ``…`` in place of what may be a secret; files are found by what the user wrote."""
    Path("labels01").mkdir()
    Path("labels01/processor.json").write_text(PROCESSOR)
    shutil.copy(model, "labels01/model.onnx")
    monkeypatch.setenv("S3_KEY_PREFIX", "labels01")
    given = ("evaluate", "labels01/model.onnx", "--data", data, "--preprocess")
    refused = ptq(*given, "labels01/processor.json", "--json", "labels01/processor.json")
    assert refused.code == 2
    assert "; give another name" in refused.err
    assert Path("labels01/processor.json").read_text() == PROCESSOR
    document = json.loads(ptq("inspect", "labels01/model.onnx", "--json", "-").out)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert document["digests"] == {"model": f"sha256:{digest}"}
    assert document["options"]["model"] == "…/model.onnx"


@pytest.mark.parametrize(
    "read",
    [
        "http://host/o",
        "HTTP://host/o/",
        "http://host/o/a b.npz",
        "http://host/o/a *.npz",
        "http://host/o/a%20*.npz",
        "http://host/o/a%20b.npz?sig=1",
        "{http://host/o/x.npz,http://host/o/a%20b.npz}",
    ],
)
@pytest.mark.parametrize("name", ["a%20b.npz", "a b.npz?sig=2"])
def test_an_output_at_a_url_is_found_in_what_is_read_there(read, name):
    sources = [Path(read)]
    assert find_replaced_input(Path(f"http://host/o/{name}"), sources) is not None
    assert find_replaced_input(Path(f"http://host/o2/{name}"), sources) is None


def test_a_new_file_beside_a_pattern_is_written(ptq, model, data):
    Path("folder").mkdir()
    with np.load(data) as arrays:
        np.savez("folder/a.npz", x=arrays["x"][:1])
    Path("folder/old.txt").touch()
    given = ("evaluate", model, "--data", "folder/*.npz", "--json")
    assert ptq(*given, "folder/new.json").code == 0
    assert ptq(*given, "folder/old.txt").code == 0


def test_every_option_that_names_a_file_is_read_or_written():
    """Outputs are those that `check_outputs` gets; a new option must be on one side."""
    written = {"also", "checkpoint", "folder", "output", "page", "path", "plot", "save"}
    written |= {"save_config", "save_plan", "summary"}
    models = {"against", "merge", "model", "models", "new", "old", "plan", "quantized", "stats"}
    found = {
        name
        for command in app.registered_commands
        if command.callback is not None
        for name, parameter in inspect.signature(command.callback, eval_str=True).parameters.items()
        if "Path" in str(get_args(parameter.annotation)[:1] or parameter.annotation)
    }
    assert found == written | models | {name.replace("-", "_") for name in READ_OPTIONS}
