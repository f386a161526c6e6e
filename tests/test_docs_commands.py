"""The commands of the documents run, as they stand and in the order of their page, on small models and data.

A URL of a store becomes a folder, because tests marked `remote` have stores. What needs a cluster, a registry of
packages or a machine with TensorRT is left out. How-tos have their own test (test_howtos.py).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import call
from networks import build_network, gaussian_array
from PIL import Image

import ptq

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = 'threads = 1\neffort = "fast"\n[verify]\nsamples = 40\n'
GATED = {"--strict": 3}
"""Options whose command may end with another exit code: a gate on random answers."""
RUNTIMES = {"openvino": "openvino", "litert": "ai_edge_litert", ".tflite": "ai_edge_litert"}
"""What a command names that needs a package."""
NOT_HERE = ("--cluster", "SLURM", "$(for")
"""A cluster: tests marked `remote`. An array of jobs: the last test of this file."""


def _blocks(page: Path) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def _commands(page: Path) -> list[str]:
    """The commands ``ptq`` of a page."""
    lines = "\n".join(_blocks(page)).replace("\\\n", " ").splitlines()
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("ptq ")]


PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if page.name != "cli.md" and _commands(page)
]


def _write_images(folder: Path, count: int = 60) -> None:
    rng = np.random.default_rng(count)
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(count):
        pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{k:02}.png")


def _write_classifier(folder: Path) -> None:
    """A float model, its int8 models and images, as the pages call them."""
    network = build_network(
        "c = Conv<pads=[1,1,1,1]>(input, w, b)\nr = Relu(c)\nd = Conv<pads=[1,1,1,1]>(r, u, b)\ns = Relu(d)\n"
        "e = Conv(s, v, b)\ng = GlobalAveragePool(e)\nf = Flatten(g)\ny = Gemm(f, m)",
        {"input": ("n", 3, 16, 16)},
        w=gaussian_array(16, 3, 3, 3),
        u=gaussian_array(16, 16, 3, 3),
        v=gaussian_array(16, 16, 1, 1),
        b=gaussian_array(16),
        m=gaussian_array(16, 4),
    )
    network.graph.node[2].name = "NODE"
    onnx.save(network, folder / "model.onnx")
    _write_images(folder / "images")
    made = ptq.quantize(network, folder / "images", effort="fast", method="minmax", threads=1)
    made.save(folder / "model.int8.onnx")
    shutil.copy(folder / "model.int8.onnx", folder / "released.onnx")


def _write_parts(folder: Path) -> None:
    """Images for calibration and for evaluation."""
    shutil.rmtree(folder / "images")
    for name in ("images/calibration", "images/evaluation", "bucket/calib"):
        _write_images(folder / name)


def _write_models_of_tasks(folder: Path) -> None:
    """A detector and a recognizer, trained by the makers of the how-tos."""
    for maker in ("shape_detector", "digit_lines"):
        program = ROOT / "examples" / "howto" / "models" / f"{maker}.py"
        subprocess.run([sys.executable, program, folder / maker], check=True)
    shutil.copy(folder / "shape_detector" / "detector.onnx", folder / "yolo.onnx")
    shutil.copytree(folder / "shape_detector" / "calibration" / "images", folder / "images")
    shutil.copytree(folder / "shape_detector" / "evaluation", folder / "val")
    lines = folder / "digit_lines"
    recognizer = onnx.load(lines / "recognizer.onnx")
    alphabet = (lines / "alphabet.txt").read_text(encoding="utf-8")
    recognizer.metadata_props.add(key="character", value=alphabet)
    onnx.save(recognizer, folder / "recognizer.onnx")
    shutil.copytree(lines / "calibration", folder / "lines")
    shutil.copytree(lines / "evaluation", folder / "val", dirs_exist_ok=True)
    shutil.copy(lines / "evaluation.csv", folder / "val.csv")


def _write_sample(folder: Path) -> None:
    (folder / "sample_data").symlink_to(ROOT / "sample_data")


def _write_sample_as_model(folder: Path) -> None:
    (folder / "model.onnx").symlink_to(ROOT / "sample_data" / "fashion_mobilenet.onnx")
    (folder / "images").symlink_to(ROOT / "sample_data" / "images" / "calibration" / "3_dress")


FILES: dict[str, tuple[Callable[[Path], None], ...]] = {
    "README.md": (_write_sample,),
    "ci.md": (_write_classifier, _write_parts),
    "cluster.md": (_write_classifier, _write_parts),
    "data.md": (_write_classifier, _write_parts),
    "frontier.md": (_write_sample_as_model,),
    "report.md": (),
    "tasks.md": (_write_models_of_tasks,),
    "tutorial_photos.md": (_write_sample,),
}
"""What the folder of a page holds; the others have the small classifier."""


def _missing_package(command: str) -> str | None:
    needed = {package for part, package in RUNTIMES.items() if part in command}
    return next((name for name in sorted(needed) if importlib.util.find_spec(name) is None), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for write in FILES.get(page.name, (_write_classifier,)):
        write(tmp_path)
    (tmp_path / "ptq.toml").write_text(OPTIONS)
    monkeypatch.chdir(tmp_path)
    commands = [c.replace("s3://bucket", "bucket") for c in _commands(page)]
    if page.stem == "targets":  # it says how a model is opened before it says how it is made
        commands.sort(key=lambda command: not command.startswith("ptq quantize"))
    for command in commands:
        if any(part in command for part in NOT_HERE) or _missing_package(command):
            continue
        code, printed = call(*shlex.split(command, comments=True)[1:])
        gate = {code for option, code in GATED.items() if option in command}
        assert code in {0, *gate}, f"{command}\n{printed}"


def test_the_array_of_jobs_of_the_cluster_page_merges_its_parts(tmp_path: Path) -> None:
    [block] = [b for b in _blocks(ROOT / "docs" / "cluster.md") if "SLURM" in b]
    _write_classifier(tmp_path)
    _write_parts(tmp_path)
    smaller = {"s3://bucket": "bucket", "/64": "/2", "seq 0 63": "seq 0 1"}
    for old, new in smaller.items():
        assert old in block
        block = block.replace(old, new)
    job, afterwards = block.split("# afterwards")
    command = f'ptq() {{ "{sys.executable}" -m ptq "$@"; }}\nset -eu\n'
    for number in "01":
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": number}
        subprocess.run(["sh", "-c", command + job], cwd=tmp_path, env=environment, check=True)
    subprocess.run(["sh", "-c", command + afterwards], cwd=tmp_path, check=True)
    whole = ptq.calibrate(tmp_path / "model.onnx", tmp_path / "bucket" / "calib", threads=1)
    assert (tmp_path / "model.stats.npz").read_bytes() == whole.to_bytes()
