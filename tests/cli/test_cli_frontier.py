"""``ptq frontier`` and the limits of speed on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest


def test_the_curve_is_printed_written_and_one_of_its_models_too(
    ptq, model: Path, data: Path
) -> None:
    done = ptq(
        "frontier", model, "--data", data, "--effort", "fast", "--threads", 1, "--point", 0, "-o", "q.onnx",
        "--plot", "curve.svg", "--save", "curve", "--json", "curve.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "speed against error" in done.out
    onnx.checker.check_model(onnx.load("q.onnx"))
    assert Path("curve.svg").read_text().startswith("<svg ")
    points = json.loads(Path("curve.json").read_text())["points"]
    assert [point["number"] for point in points] == list(range(len(points)))
    assert len(list(Path("curve").glob("point-*.json"))) == len(points)
    assert Path("curve/statistics.npz").exists()


def test_a_saved_frontier_is_an_output_like_others(ptq, model: Path, data: Path) -> None:
    given = ("frontier", model, "--data", data, "--effort", "fast", "--threads", 1)
    saved = Path("saved")
    saved.mkdir()
    (saved / "point-99.json").write_text("{}")
    before = (saved / "point-99.json").read_bytes()
    refused = ptq(*given, "--save", saved, "--no-clobber")
    assert (refused.code, (saved / "point-99.json").read_bytes()) == (2, before)
    assert "saved/point-99.json exists" in refused.err
    samples = saved / "statistics.npz"
    samples.write_bytes(data.read_bytes())
    refused = ptq("frontier", model, "--data", samples, "--threads", 1, "--save", saved)
    assert (refused.code, samples.read_bytes()) == (2, data.read_bytes())
    assert "is the input" in refused.err
    (saved / "frontier.json").write_text("{}")
    done = ptq(*given, "--save", saved)
    assert done.code == 0, done.err
    assert "replaced saved/statistics.npz" in done.err
    assert not (saved / "point-99.json").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--point", "99"], "there is no point 99"),
        (["--point", "-1"], "point"),
        (["-o", "q.onnx"], "give --point"),
        (["--plot", "curve.png"], ".svg"),
        (["--save", "file"], "give a folder"),
        (["--target", "litert"], "no times are measured"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error_of_one_line(
    ptq, model: Path, data: Path, options: list[str], says: str
) -> None:
    Path("file").write_text("")
    done = ptq("frontier", model, "--data", data, "--effort", "fast", "-q", *options)
    assert done.code == 2
    assert says in done.line
    assert not Path("q.onnx").exists()


def test_a_speed_that_is_not_reached_ends_with_3_and_the_model_is_written(
    ptq, model: Path, data: Path
) -> None:
    done = ptq(
        "quantize", model, "--data", data, "--eval", data, "-o", "q.onnx", "--min-speedup", 1000, "-q"
    )  # fmt: skip
    assert done.code == 3
    assert "at least 1000 was asked for" in done.line
    assert Path("q.onnx").exists()


def test_a_speed_that_is_no_number_is_a_usage_error(ptq, model: Path, data: Path) -> None:
    assert ptq("quantize", model, "--data", data, "--min-speedup", "fast").code == 2
