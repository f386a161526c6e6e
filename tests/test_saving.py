"""What is saved by objects of the Python API: places that cannot be written, and arguments that are no places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import DataError, PtqError, StatsError, UsageError

MODEL = build_network("y = Gemm(x, w)", {"x": ("n", 8)}, w=gaussian_array(8, 16))
ROWS = gaussian_array(60, 8, seed=1)
Saving = Callable[[ptq.Result, object], None]
SAVINGS: list[Saving] = [
    lambda result, path: result.save(path),  # type: ignore[arg-type]
    lambda result, path: result.plan.save(path),  # type: ignore[arg-type]
    lambda result, path: result.calibration.save(path),  # type: ignore[arg-type]
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ptq.Result:
    source = tmp_path_factory.mktemp("float") / "model.onnx"
    onnx.save(MODEL, source)
    return ptq.quantize(source, ROWS, effort="fast", force=True)


@pytest.mark.parametrize("save", SAVINGS, ids=["model", "plan", "statistics"])
def test_a_place_that_cannot_be_written_is_one_known_error(
    result: ptq.Result, save: Saving, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "x", tmp_path / ("a" * 300)):
        with pytest.raises(PtqError, match="cannot be written"):
            save(result, place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(UsageError, match="path of type int is not a path"):
        save(result, 5)


def test_a_name_in_capitals_is_the_same_format(result: ptq.Result, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    made = ptq.quantize(MODEL, ROWS, effort="fast", target="litert", form="tflite", force=True)
    made.save(tmp_path / "m.TFLITE")
    assert (tmp_path / "m.TFLITE").read_bytes()[4:8] == b"TFL3"
    assert ptq.evaluate(tmp_path / "m.TFLITE", ROWS).samples == len(ROWS)


def test_false_of_numpy_cancels_too() -> None:
    with pytest.raises(ptq.Cancelled):
        ptq.calibrate(MODEL, ROWS, progress=lambda *_: lambda: np.False_)  # type: ignore[arg-type, return-value]
    assert ptq.calibrate(MODEL, ROWS, progress=lambda *_: lambda: 0).samples == len(ROWS)  # type: ignore[arg-type, return-value]


def test_a_second_model_in_place_of_data_is_named() -> None:
    with pytest.raises(UsageError, match=r"data b\.onnx is a model; give all models as a list"):
        ptq.benchmark(MODEL, "b.onnx")


def test_masked_values_are_refused() -> None:
    rows = np.ma.masked_array(ROWS, mask=ROWS > 2)
    with pytest.raises(DataError, match="has masked values"):
        ptq.calibrate(MODEL, rows)
    with pytest.raises(DataError, match="has masked values"):
        ptq.calibrate(MODEL, {"x": list(rows)})
    assert ptq.calibrate(MODEL, np.ma.masked_array(ROWS)).samples == len(ROWS)


def test_statistics_of_equalized_weights_say_what_they_need() -> None:
    rng = np.random.default_rng(0)
    scales = np.geomspace(1, 300, 16)[:, None, None, None]
    network = build_network(
        "a = Conv(x, w)\n r = Relu(a)\n b = Conv(r, v)\n p = GlobalAveragePool(b)\n y = Flatten(p)",
        w=(rng.normal(size=(16, 3, 3, 3)) * scales).astype(np.float32),
        v=(rng.normal(size=(5, 16, 3, 3)) / scales.reshape(1, 16, 1, 1)).astype(np.float32),
    )
    rows = rng.normal(size=(60, 3, 8, 8)).astype(np.float32)
    made = ptq.quantize(network, rows, force=True)
    with pytest.raises(StatsError, match="give its plan or its data with them"):
        ptq.quantize(network, stats=made.calibration)
    again = ptq.quantize(network, stats=made.calibration, plan=made.plan, force=True)
    assert again.plan.tensors == made.plan.tensors
