"""What a quantization says of the runtime that its result is for."""

from __future__ import annotations

import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.executor.runtimes.registry import RUNTIMES, Runtime

MODEL = build_network(
    "c = Conv<pads = [1, 1, 1, 1]>(x, u)\nr = Relu(c)\ny = Conv<pads = [1, 1, 1, 1]>(r, v)",
    u=gaussian_array(8, 3, 3, 3),
    v=gaussian_array(8, 8, 3, 3),
)
DATA = {"x": gaussian_array(16, 3, 8, 8, seed=5)}
OPTIONS = {"eval_data": DATA, "effort": "fast", "threads": 1, "force": True}


def lines(target: str) -> list[str]:
    """The lines of the report of a quantization for a target."""
    return list(ptq.quantize(MODEL, DATA, target=target, **OPTIONS).report.changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["openvino", "qnn", "ort-xnnpack"])
def test_a_runtime_that_is_not_installed_is_named(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime, "is_installed", lambda self: False)
    runtime = RUNTIMES[target]
    said = f"not run in {runtime.title}: it is not installed ({runtime.install})"
    assert said in lines(target)


@pytest.mark.parametrize("target", ["openvino", "qnn"])
def test_a_runtime_that_is_installed_measures_the_result(target: str) -> None:
    runtime = RUNTIMES[target]
    if not runtime.is_installed():
        pytest.skip(f"needs: {runtime.install}")
    found = [line for line in lines(target) if line.startswith(f"in {runtime.title}: ")]
    assert "SQNR" in found[0]
    assert " nodes on " in found[1]
    assert ("speed" in found[-1]) == (target == "openvino")


def test_for_tensorrt_the_rules_are_checked_and_no_run_is_claimed() -> None:
    found = lines("tensorrt")
    assert "rules of TensorRT: no finding" in found
    assert "not run in TensorRT: it needs a GPU" in found


def test_for_onnx_runtime_nothing_is_added() -> None:
    assert not any("not run" in line or "rules of" in line for line in lines("ort"))
