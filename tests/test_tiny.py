"""The whole stack on a network of five nodes: calibrate, solve, rewrite, run, measure, verify.

ONNX Runtime's float run is the oracle of the numbers, its integer run of the integers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array, random_feeds
from parts import CONV, WB

import ptq

MODEL = build_network(
    CONV + "r = Relu(c)\np = MaxPool<kernel_shape=[2,2],strides=[2,2]>(r)\nf = Flatten(p)\n"
    "y = Gemm(f, m)",
    {"x": ("n", 3, 8, 8)},
    m=gaussian_array(128, 10, scale=0.1),
    **WB,
)
DATA = {"x": np.concatenate([f["x"] for f in random_feeds(MODEL, 16)])}


@pytest.mark.parametrize("target", ["ort", "litert"])
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_the_whole_stack(target: str, form: str, tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **DATA)
    result = ptq.quantize(  # metadata would be larger than this network
        tmp_path / "model.onnx",
        tmp_path / "data.npz",
        target=target,
        form=form,  # type: ignore[arg-type]
        metadata=False,
        threads=1,
    )
    result.save(tmp_path / "int8.onnx")
    assert not result.plan.floats
    assert result.report.evaluation is not None
    for name in ("int8", "integers"):
        fidelity = result.report.evaluation.forms[name].outputs["y"]
        assert fidelity.sqnr_db > 25
        assert fidelity.agreement is not None
        assert fidelity.agreement > 0.8
    assert (tmp_path / "int8.onnx").stat().st_size < (tmp_path / "model.onnx").stat().st_size
    checked = ptq.verify(tmp_path / "int8.onnx", tmp_path / "data.npz", threads=1)
    assert checked.intact
    assert checked.equal
