"""Standard streams that are closed or full, and a current folder that is gone. Oracle: the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PTQ = f"{sys.executable} -m ptq"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


def test_closed_streams_do_not_end_in_a_file(model):
    """The next file to be opened would take the place of a closed stream, and what is printed into it."""
    done = shell(f"{PTQ} inspect {model} --json out.json >&- 2>&- <&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert shell(f"{PTQ} inspect {model} --json -").stdout == Path("out.json").read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_a_full_standard_output_is_one_line(model):
    done = shell(f"{PTQ} inspect {model} --json - >/dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        "error: cannot write to standard output: No space left on device; redirect it elsewhere\n"
    )


def test_a_current_folder_that_is_gone_is_one_line(model, data, tmp_path):
    (tmp_path / "gone").mkdir()
    command = f"cd {tmp_path}/gone && rmdir ../gone && {sys.executable} -P -m ptq"
    done = shell(f"{command} quantize {model} --data {data}")
    assert done.returncode == 2
    assert done.stderr.startswith("error: output model.int8.onnx cannot be written: No such file")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_what_the_users_code_prints_is_not_in_the_json(model, tmp_path, workers):
    (tmp_path / "work" / "talking.py").write_text(
        "import numpy as np\n"
        "def samples():\n"
        "    for k in range(24):\n"
        "        print('sample', k)\n"
        "        yield {'x': np.full((3, 8, 8), k, np.float32)}\n"
    )
    options = f"--data talking:samples --method minmax --force --workers {workers}"
    done = shell(f"PYTHONPATH=. {PTQ} quantize {model} {options} --json -")
    assert json.loads(done.stdout)["calibration_samples"] == 24
    assert "sample 23" in done.stderr
