"""The steps of examples/cluster run in processes of their own; ptq in one process is the oracle."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "cluster"


def test_the_steps_pickle_and_give_the_bytes_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("PYTHONPATH", ":".join([str(FOLDER), *sys.path]))
    steps = import_module("steps")
    model, data, folder = str(tmp_path / "m.onnx"), str(tmp_path / "x.npz"), str(tmp_path)
    network = build_network(
        "y = Gemm(x, w, b)", {"x": ("n", 8)}, w=gaussian_array(8, 4), b=gaussian_array(4)
    )
    onnx.save(network, model)
    np.savez(data, x=gaussian_array(30, 8))
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        counted = [pool.submit(steps.calibrate_shard, model, data, k, 3, folder) for k in range(3)]
        places = [future.result() for future in counted]
        # a manager repeats a step whose worker it lost
        assert pool.submit(steps.calibrate_shard, model, data, 1, 3, folder).result() == places[1]
        merged = pool.submit(steps.merge_shards, places[::-1], f"{folder}/stats.npz").result()
    assert Path(merged).read_bytes() == ptq.calibrate(model, data, threads=1).to_bytes()
    with pytest.raises(ptq.StatsError, match="is missing"):
        steps.merge_shards(places[:2], f"{folder}/part.npz")
    with pytest.raises(ptq.StatsError, match="counted twice"):
        steps.merge_shards([*places, places[0]], f"{folder}/twice.npz")
    steps.quantize_model(model, merged, f"{folder}/q.onnx")
    assert Path(folder, "q.onnx").stat().st_size


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.name)
def test_the_examples_are_python_and_call_the_steps(file: Path) -> None:
    code = compile(file.read_text(), str(file), "exec")
    if file.name != "steps.py":
        assert {"calibrate_shard", "merge_shards", "quantize_model"} <= {*code.co_names}
