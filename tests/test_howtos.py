"""The scripts of examples/howto run on models that the committed makers train, and each has its page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "howto"
SCRIPTS = sorted([*FOLDER.glob("*.py"), *FOLDER.glob("*.sh")])
WRITTEN = {
    "image_classification": "model.int8.onnx",
    "detection": "detector.int8.onnx",
    "segmentation": "segmenter.int8.onnx",
    "ocr": "recognizer.int8.onnx",
    "speech": "vowels.int8.onnx",
    "sentence_encoder": "encoder.int8.onnx",
    "lstm": "lstm.int8.onnx",
    "encoder_decoder": "decoder.int8.onnx",
    "custom_metric": "model.int8.onnx",
    "ci_gate": "model.int8.onnx",
    "cluster": "model.int8.onnx",
}
"""What each script writes."""
FLOAT_LINES = {
    "detection": r"float .*mAP50'.*0\.9",
    "speech": r"float: .*top1=0\.9",
    "lstm": r"float: .*top1=0\.9",
    "ocr": r"float .*'exact lines', value=0\.[89]",
}
"""What a script prints of the float model: it does its task, so that the figures of int8 mean something."""


def _environment(folder: Path) -> dict[str, str]:
    """The command ``ptq`` is the module of this interpreter, and processes use one thread."""
    command = folder / "bin" / "ptq"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ptq "$@"\n')
    command.chmod(0o755)
    paths = os.pathsep.join(path for path in sys.path if path)
    return {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": "1",
    }


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_page_of_how_tos_has_one_script_and_each_script_a_page():
    pages = sorted((ROOT / "docs" / "howto").glob("*.md"))
    named = [
        re.findall(r"<!-- examples/howto/(\S+), copied", page.read_text("utf-8")) for page in pages
    ]
    assert [name for names in named for name in names] == [script.name for script in SCRIPTS]
    assert [page.stem for page in pages] == [script.stem for script in SCRIPTS] == sorted(WRITTEN)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_script_of_a_how_to_runs(script: Path, tmp_path: Path):
    environment = _environment(tmp_path)
    page = (ROOT / "docs" / "howto" / f"{script.stem}.md").read_text("utf-8")
    work = tmp_path / "work"
    maker = re.search(r"^python (examples/howto/models/\w+\.py) work", page, re.MULTILINE)
    if script.stem == "sentence_encoder":
        pytest.importorskip("tokenizers", reason="the extra text is not installed")
    if maker is None:
        work.mkdir()
        (work / "sample_data").symlink_to(ROOT / "sample_data")
    else:
        _run([sys.executable, str(ROOT / maker[1]), str(work)], tmp_path, environment)
    shell = shutil.which("sh") or pytest.skip("needs a shell")
    interpreter = {".sh": shell, ".py": sys.executable}[script.suffix]
    said = _run([interpreter, str(script)], work, environment)
    assert re.search(FLOAT_LINES.get(script.stem, ""), said), said
    assert (work / WRITTEN[script.stem]).stat().st_size > 1000
    _run_commands(
        page,
        work,
        {**environment, "PYTHONPATH": f"{FOLDER}{os.pathsep}{environment['PYTHONPATH']}"},
    )


def _run_commands(page: str, work: Path, environment: dict[str, str]) -> None:
    """Run the commands ``ptq`` of a page, each block that holds nothing else."""
    (work / "ptq.toml").write_text('threads = 1\neffort = "fast"\n')
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for block in blocks:
        if all(line.startswith("ptq ") for line in block.splitlines()):
            _run(["sh", "-euc", block], work, environment)
